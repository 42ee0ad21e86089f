"""A topology applied to the existing topics: tasks, internal topics, and errors with Apache Kafka's messages."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import Topology
from ottla.server.groups.streams.configured import Configured, StatusCode, configure
from ottla.server.groups.streams.topology import topology_from_record, topology_from_request
from ottla.storage.steps import to_the_end
from support.groups.consumer_groups import raised
from support.groups.groups import FakeTopics
from support.groups.streams_groups import COUNTS, info, subtopology, topology
from support.sizes import size

SOURCE, PARTITIONING, INTERNAL = (
    StatusCode.MISSING_SOURCE_TOPICS,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    StatusCode.MISSING_INTERNAL_TOPICS,
)


def configured(application: Topology, **partition_counts: int) -> Configured:
    return to_the_end(configure(topology_from_request(application), FakeTopics(**partition_counts)))


JOIN = topology(
    subtopology("0", "orders", "bills", repartition=[info("r")], together=[((0, 1), (0,))]),
    subtopology("1", "orders", sinks=["r"]),
)
FIXED = topology(
    subtopology("0", repartition=[info("r", 3), info("s")], together=[((), (0, 1))]),
    subtopology("1", "orders", sinks=["r", "s"]),
)
CHAIN = topology(
    subtopology("0", repartition=[info("c")], changelogs=[info("kept")]),
    subtopology("1", repartition=[info("b")], sinks=["c"]),
    subtopology("2", "orders", sinks=["b"]),
)
WORKING = [
    (topology(), {"orders": 3}, {"0": 3}, {}),
    (topology(subtopology("0", "orders", "bills")), {"orders": 3, "bills": 5}, {"0": 5}, {}),
    (COUNTS, {"orders": 3}, {"0": 3, "1": 3}, {"counts": 3, "words": 3}),
    (COUNTS, {"orders": 3, "words": 3}, {"0": 3, "1": 3}, {"counts": 3}),
    (COUNTS, {"orders": 3, "words": 3, "counts": 3}, {"0": 3, "1": 3}, {}),
    (JOIN, {"orders": 2, "bills": 2}, {"0": 2, "1": 2}, {"r": 2}),
    (FIXED, {"orders": 7}, {"0": 3, "1": 7}, {"r": 3, "s": 3}),
    (CHAIN, {"orders": 4}, {"0": 4, "1": 4, "2": 4}, {"b": 4, "c": 4, "kept": 4}),
    (
        topology(
            subtopology("0", repartition=[info("r"), info("s")], together=[((), (0, 1))]),
            subtopology("1", "orders", sinks=["r"]),
            subtopology("2", "bills", sinks=["s"]),
        ),
        {"orders": 2, "bills": 5},
        {"0": 5, "1": 2, "2": 5},
        {"r": 5, "s": 5},
    ),
]


@pytest.mark.parametrize(("application", "counts", "tasks", "missing"), WORKING)
def test_tasks_and_internal_topics_follow_from_the_sources(
    application: Topology, counts: dict[str, int], tasks: dict[str, int], missing: dict[str, int]
) -> None:
    found = configured(application, **counts)
    assert found.subtopologies is not None
    assert {key: one.tasks for key, one in found.subtopologies.items()} == tasks
    assert {name: one.partitions for name, one in found.missing.items()} == missing
    assert (None if found.problem is None else found.problem.code) == (INTERNAL if missing else None)


WRONG = [
    (topology(), {}, SOURCE, "Source topics orders are missing."),
    (
        topology(subtopology("0", *"fedcba")),
        {"a": 1},
        SOURCE,
        "Source topics b, c, d and 2 additional topics are missing.",
    ),
    (
        JOIN,
        {"orders": 2, "bills": 3},
        PARTITIONING,
        "Following topics do not have the same number of partitions: [{bills=3, orders=2}]",
    ),
    (
        topology(subtopology("0", "orders", repartition=[info("r", 3)], together=[((0,), (0,))], sinks=["r"])),
        {"orders": 2},
        PARTITIONING,
        "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [2] of the source topic.",
    ),
    (
        topology(
            subtopology("0", "orders", repartition=[info("r", 5)]),
            subtopology("1", "orders", repartition=[info("r")], together=[((0,), (0,))], sinks=["r"]),
        ),
        {"orders": 4},
        PARTITIONING,
        "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [4] of the source topic.",
    ),
    (
        topology(
            subtopology("0", repartition=[info("r", 3), info("s", 4)], together=[((), (0, 1))]),
            subtopology("1", "orders", sinks=["r", "s"]),
        ),
        {"orders": 2},
        PARTITIONING,
        "Following topics do not have the same number of partitions: [{r=3, s=4}]",
    ),
    (
        COUNTS,
        {"orders": 3, "words": 2},
        PARTITIONING,
        "Existing topic counts has different number of partitions: expected 2, found 3",
    ),
    (
        COUNTS,
        {"orders": 3, "words": 3, "counts": 4},
        PARTITIONING,
        "Existing topic counts has different number of partitions: expected 3, found 4",
    ),
]


@pytest.mark.parametrize(("application", "counts", "code", "detail"), WRONG)
def test_what_keeps_everybody_from_work_is_told(
    application: Topology, counts: dict[str, int], code: StatusCode, detail: str
) -> None:
    counts = {**counts, **({"counts": 3} if counts == {"orders": 3, "words": 2} else {})}
    found = configured(application, **counts)
    assert found.problem is not None
    assert (found.problem.code, found.problem.detail) == (code, detail)
    assert (found.subtopologies, found.missing) == (None, {})


_FAILED = "Failed to compute number of partitions for all repartition topics"
NEVER = [
    (
        topology(subtopology("0", repartition=[info("r")], sinks=["r"])),
        f"{_FAILED}. There may be loops in the topology that cannot be resolved.",
    ),
    (
        topology(subtopology("0", "orders", repartition=[info("r")])),
        f"{_FAILED}, because a repartition source topic is never used as a sink topic.",
    ),
    (topology(subtopology("0")), "No source topics found for subtopology 0"),
    (
        topology(subtopology("0", "orders", together=[((1,), ())])),
        "Invalid topic index 1 in a copartition group of 1 topics.",
    ),
    (
        topology(subtopology("0", "orders", together=[((-1,), ())])),
        "Invalid topic index -1 in a copartition group of 1 topics.",
    ),
    (
        topology(subtopology("0", "orders", together=[((), (0,))])),
        "Invalid topic index 0 in a copartition group of 0 topics.",
    ),
    (topology(subtopology("0", "orders", repartition=[info("r", -5)])), "r cannot have -5 partitions."),
]


@pytest.mark.parametrize(("application", "words"), NEVER)
def test_what_no_topics_could_help_is_refused(application: Topology, words: str) -> None:
    assert raised(lambda: configured(application, orders=3)) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


def test_a_changelog_of_two_subtopologies_is_as_large_as_the_last_needs_it() -> None:
    """Apache Kafka 4.3.1 does the same; its description has that number for both names."""
    shared = topology(
        subtopology("0", "bills", changelogs=[info("kept")]), subtopology("1", "orders", changelogs=[info("kept")])
    )
    found = configured(shared, bills=4, orders=6)
    assert {key: one.tasks for key, one in (found.subtopologies or {}).items()} == {"0": 4, "1": 6}
    assert [one.changelogs[0].partitions for one in (found.subtopologies or {}).values()] == [6, 6]


def test_a_topic_without_a_number_of_its_own_that_is_there_has_the_number_it_has() -> None:
    """Apache Kafka does the same: the existing number counts, and the changelog after it follows."""
    found = configured(CHAIN, orders=4, c=4, b=4)
    assert {name: one.partitions for name, one in found.missing.items()} == {"kept": 4}


@pytest.mark.parametrize(
    "application", [topology(epoch=-1), topology(subtopology("0", "orders"), subtopology("0", "bills"))]
)
def test_what_makes_no_sense_fails_as_in_apache_kafka(application: Topology) -> None:
    assert raised(lambda: topology_from_request(application))[0] is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("application", [JOIN, FIXED, CHAIN, COUNTS])
def test_what_is_written_down_is_what_was_brought_along(application: Topology) -> None:
    made = topology_from_request(application)
    assert topology_from_record(made.message) == made
    backwards = Topology(epoch=application.epoch, subtopologies=application.subtopologies[::-1])
    assert topology_from_request(backwards) == made


def test_a_long_chain_in_the_worst_order_is_gone_along_once() -> None:
    count = size(200, 1_000)
    links = [
        subtopology(f"{at:04}", repartition=[info(f"t{at}")], sinks=[f"t{at - 1}"] if at else ()) for at in range(count)
    ]
    found = configured(topology(*links, subtopology("x", "orders", sinks=[f"t{count - 1}"])), orders=6)
    assert {one.partitions for one in found.missing.values()} == {6}
    assert len(found.missing) == count
