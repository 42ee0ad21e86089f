"""The compact map from keys to offsets, against a dict."""

from __future__ import annotations

import random
import sys

from hypothesis import given
from hypothesis import strategies as st

from ottla.server.client.key_offsets import KeyOffsets
from ottla.storage.topics.versions import NO_VERSION, VersionSource
from support.sizes import size

KEYS = st.sampled_from([b"", b"a", b"b", b"ab", b"abc", b"\0", b"k" * 40, *(b"%d" % number for number in range(40))])
STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "set", "delete", "below"]), KEYS, st.integers(0, 60)), max_size=200
)


@given(STEPS)
def test_the_map_does_what_a_dict_does(steps: list[tuple[str, bytes, int]]) -> None:
    found, model = KeyOffsets(), dict[bytes, int]()
    for name, key, offset in steps:
        if name == "set":
            found.set(key, offset)
            model[key] = offset
        elif name == "delete":
            found.delete(key)
            model.pop(key, None)
        else:
            found.delete_below(offset)
            model = {each: at for each, at in model.items() if at >= offset}
        assert len(found) == len(model)
    assert dict(found.items()) == model
    assert [found.get(key) for key in (*model, b"absent")] == [*model.values(), None]
    copied = found.copy()
    for key in model:
        found.delete(key)
    assert dict(copied.items()) == model and not dict(found.items())


VERSIONED_STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "delete"]), KEYS, st.sampled_from([NO_VERSION, -1, 0, 1, 2, 2**63 - 1])),
    max_size=200,
)


@given(VERSIONED_STEPS)
def test_with_versions_the_highest_one_stays_and_then_the_last(steps: list[tuple[str, bytes, int]]) -> None:
    found, model = KeyOffsets(VersionSource(None)), dict[bytes, list[tuple[int, int, bool]]]()
    for offset, (name, key, version) in enumerate(steps):
        if name == "set":
            found.set(key, offset, version)
        else:
            found.delete(key, version)
        model.setdefault(key, []).append((version, offset, name == "set"))
    highest = {key: max(each) for key, each in model.items()}
    living = {key: offset for key, (_, offset, has_value) in highest.items() if has_value}
    for each in (found, found.copy()):
        assert (len(each), each.needed) == (len(living), len(model))
        assert dict(each.items()) == living
        assert [each.get(key) for key in (*model, b"absent")] == [*map(living.get, model), None]
    copied = found.copy()
    for key in model:
        found.delete(key, 2**63 - 1)
    assert dict(copied.items()) == living and not dict(found.items())


def test_a_loop_sees_the_map_of_its_beginning() -> None:
    found = KeyOffsets()
    for number in range(100):
        found.set(b"%d" % number, number)
    seen = {}
    for key, offset in found.items():
        seen[key] = offset
        found.delete(key)
        found.set(b"new" + key, offset)
    assert seen == {b"%d" % number: number for number in range(100)}


def test_keys_that_come_and_go_take_no_more_room() -> None:
    found = KeyOffsets()
    for number in range(20_000):
        found.set(b"%d" % number, number)
        found.delete(b"%d" % (number - 10))
    assert len(found) == 10 and _size_bytes(found) < 10_000


def test_a_key_of_ten_bytes_takes_less_than_sixty() -> None:
    found, count = KeyOffsets(), size(50_000, 1_000_000)
    keys = [b"%010d" % number for number in range(count)]
    random.Random(7).shuffle(keys)
    for number, key in enumerate(keys):
        found.set(key, number)
    assert _size_bytes(found) / count < 60


def _size_bytes(found: KeyOffsets) -> int:
    return sum(sys.getsizeof(each) for each in vars(found).values())
