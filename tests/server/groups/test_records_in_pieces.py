"""Records that are made in pieces equal those that are made at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ottla.server.coordination.jobs import AT_ONCE, Steps, in_order, to_the_end
from ottla.server.groups.consumer import records as consumer_records
from ottla.server.groups.consumer import replay
from ottla.server.groups.consumer.group import ConsumerGroup
from ottla.server.groups.consumer.member import ConsumerMember, Owned, ResolvedRegex
from ottla.server.groups.records import ReadyChange, write_record
from ottla.server.groups.share import records as share_records
from ottla.server.groups.share import replay as share_replay
from ottla.server.groups.share.group import ShareGroup
from ottla.server.groups.share.member import ShareMember
from ottla.server.groups.streams import records as streams_records
from ottla.server.groups.streams import replay as streams_replay
from ottla.server.groups.streams.group import StreamsGroup
from ottla.server.groups.streams.topology import topology_from_request
from support.groups.streams_groups import COUNTS as COUNTED
from support.noted import each_case
from support.sizes import FULL, size

KINDS: dict[str, tuple[Any, Any]] = {
    "consumer": (
        consumer_records,
        ConsumerMember("m", instance_id="i", rack_id="r", client_id="é" * 40, assignor="range"),
    ),
    "share": (share_records, ShareMember("m", rack_id="r", client_id="é" * 40)),
}
COUNTS = 0, 1, 126, 127, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, size(16_400, 20_000)
"""Counts of elements: from 127 on the count takes another byte, from 16 383 on a third."""


def names(count: int) -> frozenset[str]:
    return frozenset(f"tëst-{number}" for number in range(count))


def pieces(steps: Steps[Any]) -> tuple[Any, int]:
    count = 0

    def counted() -> Steps[Any]:
        nonlocal count
        try:
            while True:
                next(steps)
                count += 1
                yield
        except StopIteration as end:
            return end.value

    return to_the_end(counted()), count


@each_case("kind", KINDS)
@each_case("count", COUNTS)
def test_a_member_of_many_names(kind: str, count: int) -> None:
    records, without = KINDS[kind]
    member = replace(without, topic_names=names(count))
    ready, in_pieces = pieces(records.writing_member("g", member))
    change = records.member_metadata("g", member)
    assert ready == ReadyChange(member, change, write_record(*change))
    assert in_pieces >= 2 * (count // AT_ONCE)


@each_case("kind", KINDS)
@each_case("count", COUNTS)
def test_a_target_of_many_topics(kind: str, count: int) -> None:
    records, _ = KINDS[kind]
    assignment = {number.to_bytes(16): frozenset({number % 7, 300}) for number in reversed(range(count))}
    made, in_pieces = pieces(records.writing_target("g", "m", assignment))
    assert (made.pair if isinstance(made, ReadyChange) else made) == write_record(*records.target("g", "m", assignment))
    assert in_pieces >= count // AT_ONCE - 1


@each_case(
    "count, revoking",
    [(count, also) for count in COUNTS for also in (0, 1, 200) if FULL or count < COUNTS[-1] or also == 200],
)
def test_what_a_member_has_of_many_topics(count: int, revoking: int) -> None:
    def owned(numbers: Iterable[int]) -> Owned:
        return {number.to_bytes(16): {300: 7, number % 7: 2} for number in numbers}

    member = replace(
        ConsumerMember("m", epoch=4), assigned=owned(reversed(range(count))), revoking=owned(range(revoking))
    )
    ready, in_pieces = pieces(consumer_records.writing_current("g", member))
    change = consumer_records.current_assignment("g", member)
    assert ready == ReadyChange(member, change, write_record(*change))
    assert in_pieces >= count


@pytest.mark.parametrize("count", COUNTS)
def test_names_in_order(count: int) -> None:
    ordered, in_pieces = pieces(in_order(names(count)))
    assert ordered == sorted(names(count))
    assert in_pieces >= count // AT_ONCE


def test_a_table_that_takes_what_was_made_is_that_which_reads_the_records() -> None:
    """Each record that is made in pieces: the table receives its source instead of parsing it."""
    member = replace(
        ConsumerMember("m", instance_id="i", topic_names=names(3), topic_regex="t.*"),
        assigned={b"1" * 16: {0: 7, 1: 2}},
        revoking={b"2" * 16: {5: 2}},
        epoch=8,
    )
    given = {b"1" * 16: frozenset({0, 1})}
    resolved = ResolvedRegex(names(4), 5, 6)
    steps = (
        consumer_records.writing_member("g", member),
        consumer_records.writing_target("g", "m", given),
        consumer_records.writing_current("g", member),
        consumer_records.writing_regex("g", "t.*", resolved),
    )
    taken, read = ConsumerGroup("g", 0), ConsumerGroup("g", 0)
    for one in map(to_the_end, steps):
        key, value = one.change
        replay.TAKE[type(key)](taken, key, one.made_of)
        replay.APPLY[type(key)](read, key, value)
        assert one.pair == write_record(*one.change)
    derived = {"version": 0, "owners": None}
    assert vars(taken) | derived == vars(read) | derived
    assert taken.owners.table == read.owners.table


def test_a_share_member_is_taken_as_its_record_says_it() -> None:
    member = ShareMember("m", rack_id="r", client_id="c", client_host="/h", topic_names=names(3))
    one = to_the_end(share_records.writing_member("g", member))
    key, value = one.change
    taken, read = ShareGroup("g", 0), ShareGroup("g", 0)
    share_replay.TAKE[type(key)](taken, key, one.made_of)
    share_replay.APPLY[type(key)](read, key, value)
    assert vars(taken) == vars(read)


def test_a_topology_is_taken_as_its_record_says_it() -> None:
    made_of = topology_from_request(COUNTED)
    key, value = streams_records.topology("g", made_of)
    taken, read = StreamsGroup("g", 0), StreamsGroup("g", 0)
    streams_replay.TAKE[type(key)](taken, key, made_of)
    streams_replay.APPLY[type(key)](read, key, value)
    assert vars(taken) == vars(read)
    assert read.topology is not None and taken.topology is not None
    assert taken.topology.subtopology_of == read.topology.subtopology_of
