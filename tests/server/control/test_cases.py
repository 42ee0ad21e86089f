"""Hard cases: each topic matches its description, for clients, after a stop, after a crash, and for readers of its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.server.commands.dump_log import PROBLEM, Dump
from ottla.server.control.cases.builders import BUILDS
from ottla.server.control.cases.load import CaseRecord, LoadedCase, cases, load_case
from ottla.server.control.cases.table import CASES, FAR
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.conversation import address, create_topic, fetch, list_offset
from support.broker.raw_client import RawClient
from support.cases import case_table
from support.cases.case_reading import read_from

EARLIEST, LATEST = -2, -1
NAMES = tuple(CASES)


def load(broker: ottla.Broker, name: str, topic: str | None = None) -> LoadedCase:
    return broker.run(load_case, broker.inner, name, topic)


def check(client: RawClient, case: LoadedCase) -> None:
    """Check everything that clients can see of a loaded case."""
    assert list_offset(client, case.topic, EARLIEST) == (0, case.start_offset)
    for committed in (False, True):
        assert list_offset(client, case.topic, LATEST, committed=committed) == (0, case.end_offset)
        expected = case.read_committed if committed else case.read_uncommitted
        read = read_from(client, case.topic, case.start_offset, committed=committed)
        assert (
            tuple(
                CaseRecord(
                    one.offset,
                    (one.key or b"").decode(),
                    None if one.value is None else one.value.decode(),
                    one.timestamp,
                )
                for one in read.records
            )
            == expected
        )
        assert read.position == case.position
        for offset in offsets_of(case):
            found = read_from(client, case.topic, offset, committed=committed)
            assert [one.offset for one in found.records] == [one.offset for one in expected if one.offset >= offset]
    for search in case.offsets_for_times:
        found_at = list_offset(client, case.topic, search.timestamp_ms)[1]
        assert (None if found_at == -1 else found_at) == search.offset


def offsets_of(case: LoadedCase) -> list[int]:
    """Return the offsets to which a client may seek: all, or those near each record if the case has billions of offsets."""
    if case.end_offset < 100:
        return list(range(case.start_offset, case.end_offset + 1))
    near = {one.offset + by for one in case.read_uncommitted for by in (-1, 0, 1)}
    return sorted(offset for offset in near if case.start_offset <= offset <= case.end_offset)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_reads_the_records_of_the_case(name: str, broker: ottla.Broker, client: RawClient) -> None:
    case = load(broker, name, "t")
    assert (case.topic, case.case) == ("t", name)
    check(client, case)


def test_all_cases_survive_stops_and_crashes_and_their_files_are_sound(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with ottla.Broker(str(data)) as broker:
        cases = [load(broker, name) for name in NAMES]
        shutil.copytree(data, copy)
    for path in sorted(data.glob("*-*/*")):
        assert [line for line in Dump(OsFiles(), deep=True).lines(str(path)) if line.startswith(PROBLEM)] == []
    (copy / ".lock").unlink(missing_ok=True)
    for directory in (data, copy):  # closed properly; as a killed process leaves it
        for _ in range(2):
            with ottla.Broker(str(directory)) as broker, RawClient(*address(broker)) as client:
                for case in cases:
                    check(client, case)


def test_verification_finds_all_uncompacted_cases_sound(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
    from ottla.pipeline.stores.store import Store
    from ottla.pipeline.verify.audit_scope import scope_alone
    from ottla.pipeline.verify.verify import verify

    with ottla.Broker(str(tmp_path / "data")) as broker:
        cases = [load(broker, name) for name in NAMES]
        now_ms = broker.inner.clock.now_ms()
    files = OsFiles()
    store = Store(str(tmp_path / "data"), files)
    verify([scope_alone(store, TopicPartition(case.topic, 0), now_ms) for case in cases], files).check()


def test_each_case_has_steps_and_a_description() -> None:
    assert BUILDS.keys() == CASES.keys()
    for info in cases():
        assert info.looks_like.endswith(".") and info.reveals.endswith(".")
        assert all(thread.startswith("https://github.com/") for thread in info.threads) and info.threads


def test_the_page_matches_the_table() -> None:
    assert case_table.PAGE.read_text() == case_table.made(), f"write it anew: {case_table.COMMAND}"


# Each case really has its difficulty.


def test_an_emptied_batch_has_a_header_and_no_record(broker: ottla.Broker, client: RawClient) -> None:
    load(broker, "emptied-batch", "t")
    log = broker.inner.services.topics.partition("t", 0).log
    headers = [(each.base_offset, each.last_offset, each.record_count) for s in log.segments for _, each in s.headers()]
    assert headers == [(0, 1, 0), (2, 4, 3), (5, 5, 0)]


def test_every_fetch_returns_the_batch_that_starts_below_it(broker: ottla.Broker, client: RawClient) -> None:
    load(broker, "batch-begins-below-fetch", "t")
    for offset in range(10):
        assert read_from(client, "t", offset, committed=False).bases == [0, 10]


def test_a_batch_extends_below_the_log_start(broker: ottla.Broker, client: RawClient) -> None:
    case = load(broker, "log-start-inside-batch", "t")
    assert fetch(client, "t", case.start_offset).log_start_offset == 4
    assert read_from(client, "t", 4, committed=False).bases == [0, 10]


def test_no_record_fills_the_gap_at_the_end(broker: ottla.Broker, client: RawClient) -> None:
    case = load(broker, "gap-at-the-end", "t")
    assert (case.position, case.end_offset) == (5, 8)
    for offset in (5, 6, 7, 8):
        assert read_from(client, "t", offset, committed=False).position == offset


def test_distant_offsets_are_in_separate_segments(broker: ottla.Broker) -> None:
    load(broker, "offsets-far-apart", "t")
    log = broker.inner.services.topics.partition("t", 0).log
    assert [each.base_offset for each in log.segments] == [0, FAR, 2 * FAR]


def test_a_transaction_spans_three_segments(broker: ottla.Broker) -> None:
    load(broker, "transaction-across-segments", "t")
    log = broker.inner.services.topics.partition("t", 0).log
    assert [each.base_offset for each in log.segments] == [0, 2, 4]
    assert log.last_stable_offset == log.log_end_offset == 8


def test_a_group_starts_near_the_end_of_its_epochs(broker: ottla.Broker, client: RawClient) -> None:
    case = load(broker, "group-epoch-near-its-end", "t")
    join = ConsumerGroupHeartbeatRequest(
        group_id="t-group",
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    answer = client.ask(join)
    assert (answer.error_code, case.group_epoch) == (0, 2**31 - 100)
    assert answer.member_epoch == 2**31 - 99


def test_the_last_epoch_of_a_group_is_followed_by_an_error(broker: ottla.Broker, client: RawClient) -> None:
    load(broker, "group-epoch-near-its-end", "t")
    codes = []
    for number in range(100):
        join = ConsumerGroupHeartbeatRequest(
            group_id="t-group",
            member_id=f"{number:022}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        codes.append(client.ask(join).error_code)
    assert codes == [ErrorCode.NONE] * 99 + [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_case_changes_only_by_a_pass_on_demand(broker: ottla.Broker, client: RawClient) -> None:
    load(broker, "tombstone-at-its-horizon", "t")
    broker.clock.advance(days=400)
    assert [one.offset for one in read_from(client, "t", 0, committed=False).records] == [1, 2, 3]
    broker.compact("t", force=True)
    read = read_from(client, "t", 0, committed=False)
    assert ([one.offset for one in read.records], list_offset(client, "t", LATEST)) == ([1, 3], (0, 4))


# Refusals, and the state after one.


def test_an_unknown_case_is_refused_with_the_nearest_name(broker: ottla.Broker) -> None:
    with pytest.raises(ControlError, match=r"case 'trailing-markr' not found; .*; did you mean 'trailing-marker'\?"):
        load(broker, "trailing-markr")


@pytest.mark.parametrize(
    ("topic", "kind", "says"),
    [
        ("there", Kind.CONFLICT, "Topic 'there' already exists."),
        ("a b", Kind.INVALID, "Topic name is invalid"),
        ("", Kind.INVALID, "the empty string is not allowed"),
        ("th.ere_", Kind.INVALID, "collides with existing topic: th_ere."),
        ("__cluster_metadata", Kind.INVALID, "is prohibited"),
    ],
)
def test_an_invalid_topic_is_refused(
    topic: str, kind: Kind, says: str, broker: ottla.Broker, client: RawClient
) -> None:
    for name in ("there", "th_ere."):
        assert create_topic(client, name).error_code == 0
    with pytest.raises(ControlError, match=says) as refused:
        load(broker, "trailing-marker", topic)
    assert refused.value.kind is kind


def test_an_existing_group_is_unchanged(broker: ottla.Broker, client: RawClient) -> None:
    client.ask(OffsetCommitRequest(group_id="t-group", topics=()), 9)
    load(broker, "group-epoch-near-its-end", "t")
    with pytest.raises(ControlError, match="group t-group already exists"):
        broker.inner.services.topics.get("t") and broker.run(_forget_topic, broker)
        load(broker, "group-epoch-near-its-end", "t")
    assert broker.inner.services.topics.get("t") is None
    assert [each.group_id for each in client.ask(ListGroupsRequest(states_filter=(), types_filter=())).groups] == [
        "t-group"
    ]


async def _forget_topic(broker: ottla.Broker) -> None:
    topic = broker.inner.services.topics.get("t")
    assert topic is not None
    await broker.inner.services.topic_admin.take_back(topic)


def test_without_consumer_groups_their_case_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), features={"group.version": 0}) as broker:
        with pytest.raises(ControlError, match=r"group\.version is 0"):
            load(broker, "group-epoch-near-its-end")
        assert [topic.name for topic in broker.inner.services.topics] == []
