"""The parts of classic consumers' metadata that the broker parses, and how much of them at once."""

from __future__ import annotations

import pytest

from ottla.protocol.codegen import LENIENT_ELEMENT_BYTES, LENIENT_ELEMENTS
from ottla.protocol.errors import ProtocolError
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.subscription import (
    LISTS_KNOWN_MAX,
    NAMES_MAX,
    read_assignment,
    read_subscription,
    subscribed_topics,
)
from support.calls import calls_of
from support.groups.groups import subscription

MANY = [f"t{number}" for number in range(NAMES_MAX)]


def with_user_data(blob: bytes, data: bytes) -> bytes:
    return blob[:-4] + len(data).to_bytes(4, "big") + data


def test_the_topics_of_all_members_are_found() -> None:
    blobs = [subscription("orders", "bills"), with_user_data(subscription("bills", "rows"), b"x"), subscription()]
    assert to_the_end(subscribed_topics(blobs)) == frozenset({"orders", "bills", "rows"})
    assert to_the_end(subscribed_topics([])) == frozenset()


def test_lists_with_a_common_prefix_are_distinguished() -> None:
    names = [f"t{number}" for number in range(2 * LISTS_KNOWN_MAX)]
    blobs = [subscription(*names[:count]) for count in range(len(names) + 1)]
    assert to_the_end(subscribed_topics(blobs)) == frozenset(names)
    assert to_the_end(subscribed_topics(reversed(blobs))) == frozenset(names)


@pytest.mark.parametrize("blob", [b"", b"\xff\xff", b"\0\0\0\0\0\1", subscription("orders")[:-5]])
def test_one_unreadable_subscription_makes_the_groups_unknown(blob: bytes) -> None:
    assert to_the_end(subscribed_topics([subscription("orders"), blob])) is None


def test_an_excessive_number_of_names_makes_the_subscription_unknown() -> None:
    assert to_the_end(subscribed_topics([subscription(*MANY[1:])])) == frozenset(MANY[1:])
    assert to_the_end(subscribed_topics([subscription(*MANY, "one more")])) is None
    # A list counts as one more, so that their number is also limited.
    halves = [subscription(*MANY[: NAMES_MAX // 2]), subscription(*MANY[NAMES_MAX // 2 : -2])]
    assert to_the_end(subscribed_topics(halves)) == frozenset(MANY[:-2])
    assert to_the_end(subscribed_topics([*halves, subscription("one more")])) is None


@pytest.mark.parametrize("size_bytes", [1, 20, 1_000])
@pytest.mark.parametrize("unit", [b"\xff", b"\xed\xa0", b"\xed\xa0\x80"])
def test_names_that_are_not_utf8_take_no_longer(unit: bytes, size_bytes: int) -> None:
    """This many such names, as of others, would block the thread for seconds."""
    name = "n" * size_bytes

    def blob(count: int) -> bytes:
        made = subscription(*[name] * count)
        return made.replace(name.encode(), (unit * size_bytes)[:size_bytes])

    bad = LENIENT_ELEMENTS + size_bytes // LENIENT_ELEMENT_BYTES
    most = (NAMES_MAX - 1) // (1 + bad)
    assert len(to_the_end(subscribed_topics([blob(most)])) or ()) == 1
    assert len(set(read_subscription(blob(most)).topics)) == 1
    for count in (most + 1, NAMES_MAX - 2):
        assert to_the_end(subscribed_topics([blob(count)])) is None
    with pytest.raises(ProtocolError, match=f"more than {NAMES_MAX} elements"):
        read_subscription(blob(NAMES_MAX - 2))


def test_members_that_differ_only_in_user_data_cost_one() -> None:
    blobs = [with_user_data(subscription(*MANY[:1_000]), bytes([number])) for number in range(100)]
    assert to_the_end(subscribed_topics(blobs)) == frozenset(MANY[:1_000])
    assert (
        calls_of(lambda: to_the_end(subscribed_topics(blobs)))
        < calls_of(lambda: to_the_end(subscribed_topics(blobs[:1]))) + 100 * 20
    )


def test_the_number_of_topics_in_one_members_blob_is_limited() -> None:
    assert len(read_subscription(subscription(*MANY)).topics) == NAMES_MAX
    for read in (read_subscription, read_assignment):
        with pytest.raises(ProtocolError):
            read(subscription(*MANY, "one more"))
