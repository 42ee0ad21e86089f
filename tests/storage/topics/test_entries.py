"""Entries of a section of the catalog: they behave as an ordered dict, and a change copies few of them."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.topics import entries as module
from ottla.storage.topics.catalog_file import CatalogState, Texts, encode_in_pieces
from ottla.storage.topics.entries import CHUNK, Entries

keys = st.text("abc", max_size=4)
changes = st.dictionaries(keys, st.none() | st.integers().map(lambda number: {"n": number}), max_size=40)


def many(count: int) -> dict[str, dict[str, int]]:
    return {f"{number:06}": {"n": number} for number in range(count)}


@settings(deadline=None)
@given(st.lists(changes, max_size=8), st.integers(2, 8))
def test_they_are_what_a_sorted_dict_is(steps: list[dict[str, dict[str, int] | None]], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "CHUNK", chunk)
        patched.setattr(module, "SORTED_AT_ONCE", 3)
        found, model = Entries(), dict[str, dict[str, int]]()
        for step in steps:
            found = found.with_changes(step)
            model = {key: facts for key, facts in (model | step).items() if facts is not None}
            assert list(found.items()) == sorted(model.items())
            assert len(found) == len(model)
            assert all(0 < len(each) <= chunk for each in found.chunks)
            pairs = zip(found.chunks, found.chunks[1:], strict=False)
            assert all(len(one) + len(next_one) > chunk // 2 for one, next_one in pairs)
            assert found == model == Entries.from_mapping(model)
            assert ("abc" in found) is ("abc" in model)


def test_what_is_not_there_is_a_key_error() -> None:
    for entries in (Entries(), Entries.from_mapping(many(3))):
        with pytest.raises(KeyError):
            entries["zzz"]


def test_a_change_of_one_leaves_all_others_the_objects_that_they_were() -> None:
    before = Entries.from_mapping(many(10_000))
    for change in ({"005000": {"n": 0}}, {"005000x": {"n": 0}}, {"005000": None}):
        after = before.with_changes(change)
        assert len(set(map(id, after.chunks)) - set(map(id, before.chunks))) <= 2


def test_a_file_with_one_entry_more_is_put_together_of_what_was_said_before() -> None:
    texts: Texts = {}
    before = Entries.from_mapping(many(10_000))
    assert list(encode_in_pieces(CatalogState("c", sections={"acls": before}), texts))
    kept = dict(texts["acls"])
    after = CatalogState("c", sections={"acls": before.with_changes({"5x": {"n": 1}})})
    assert b"".join(encode_in_pieces(after, texts)) == b"".join(encode_in_pieces(after, {}))
    assert sum(kept.get(name) is not text for name, text in texts["acls"].items()) <= 2


@pytest.mark.parametrize(
    "work",
    [
        lambda entries: Entries.from_mapping(many(len(entries))),
        lambda entries: entries.with_changes(dict.fromkeys(entries)),
        lambda entries: entries.with_changes({f"{key}x": {} for key in entries}),
        lambda entries: list(encode_in_pieces(CatalogState("c", sections={"acls": entries}), {})),
    ],
    ids=["made", "all gone", "twice as many", "written"],
)
def test_no_call_of_c_goes_over_them_all(work: Callable[[Entries], object]) -> None:
    """Between two calls of Python another thread may run; a C call over all entries would take longer the more there are."""
    calls = []
    for count in (5 * CHUNK, 50 * CHUNK):
        entries, made = Entries.from_mapping(many(count)), [0]

        def note(_frame: FrameType, event: str, _argument: object, made: list[int] = made) -> None:
            made[0] += event == "call"

        sys.setprofile(note)
        try:
            work(entries)
        finally:
            sys.setprofile(None)
        calls.append(made[0])
    assert calls[1] > 5 * calls[0]
