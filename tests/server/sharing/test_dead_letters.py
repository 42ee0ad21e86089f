"""Dead letters of share groups: which records get one, what it says, and what happens if it cannot be written."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from ottla.protocol import compression
from ottla.protocol.compression import Codec
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records import HEADER_BYTES, batches
from ottla.server.config.features import SHARE_GROUPS, UpgradeType
from ottla.server.control.nodes import move_leader
from ottla.server.partitions.topics import NO_LEADER, Partition
from ottla.server.sharing import dead_letters, letters
from ottla.server.sharing.acknowledging import ACCEPT, GAP, REJECT, RELEASE
from ottla.server.sharing.dead_letters import BACKOFF_MS
from ottla.server.sharing.letters import Copies, Copy, Letters
from ottla.server.sharing.share_partition import DeadRecords, SharePartition
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.storage.disk.paths import TopicPartition
from support.broker.in_process_broker import NOW_MS, pass_time, run_in_order
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.passes import counting_passes
from support.sharing.chaos_members import Connection, Member
from support.sharing.dead_letters import LETTERS, Queue, queue

LOCK_MS = 30_000
ONE = (batch(("k", "v"), timestamp=NOW_MS),)
FIVE = (batch(*((f"k{at}", f"v{at}") for at in range(5)), timestamp=NOW_MS),)
WITHOUT_KEY = (batch(("k", "v"), (None, "v"), ("k", "v"), timestamp=NOW_MS),)
SOURCE = TopicPartition("t", 3)
ARCHIVING, ARCHIVED = 3, 4


def headers(offset: int, deliveries: int, message: bytes) -> tuple[tuple[str, bytes | None], ...]:
    return (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"%d" % deliveries),
        ("__dlq.errors.message", message),
    )


REJECTED = b"Offset rejected by client."
EXHAUSTED = b"Offset delivery count exceeded the threshold."


async def reject(there: Queue) -> None:
    await there.say(dict.fromkeys(await there.fetch(), REJECT))


async def release(there: Queue) -> None:
    for _ in range(2):
        await there.say(dict.fromkeys(await there.fetch(), RELEASE))


async def lose_locks(there: Queue) -> None:
    for _ in range(2):
        assert await there.fetch()
        await pass_time(there.broker, LOCK_MS)


async def disconnect(there: Queue) -> None:
    for _ in range(2):
        assert await there.fetch()
        there.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        there.connection.epoch, there.connection.client.farewell = 0, None


ENDS: dict[str, tuple[Callable[[Queue], Awaitable[None]], int, bytes]] = {
    "rejected": (reject, 1, REJECTED),
    "released at its last delivery": (release, 2, EXHAUSTED),
    "lost at its last delivery": (lose_locks, 2, EXHAUSTED),
    "held by a member that disconnects": (disconnect, 2, EXHAUSTED),
}


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_a_record_that_the_group_gives_up_gets_a_dead_letter(how: str, copies: bool) -> None:
    end, deliveries, message = ENDS[how]

    async def main() -> None:
        async with queue(records=ONE, copies=copies) as there:
            await there.create()
            await end(there)
            (letter,) = there.letters()
            assert letter.headers == headers(0, deliveries, message)
            assert (letter.key, letter.value) == ((b"k", b"v") if copies else (None, None))
            assert letter.timestamp == there.broker.clock.now_ms()
            state = there.state.batches
            assert [(one.delivery_state, one.delivery_count) for one in state] == [(ARCHIVED, deliveries)]
            assert there.state.delivery_complete_count == 1

    run_in_order(main)


def test_accepted_records_and_gaps_get_none() -> None:
    async def main() -> None:
        async with queue(records=FIVE) as there:
            await there.create()
            await there.fetch()
            await there.say({0: ACCEPT, 1: REJECT, 2: GAP, 3: RELEASE, 4: REJECT})
            assert there.dead() == [1, 4]
            assert await there.fetch() == [3]

    run_in_order(main)


def test_a_rejection_at_the_last_delivery_is_a_rejection() -> None:
    async def main() -> None:
        async with queue(records=ONE) as there:
            await there.create()
            await there.say(dict.fromkeys(await there.fetch(), RELEASE))
            await reject(there)
            assert there.letters()[0].headers == headers(0, 2, REJECTED)

    run_in_order(main)


def test_letters_go_to_the_partition_of_the_records_number() -> None:
    async def main() -> None:
        async with queue(records=ONE) as there:
            await there.create(partitions=3)
            await reject(there)
            topic = there.broker.services.topics.get(LETTERS)
            assert topic is not None
            assert [partition.log.log_end_offset for partition in topic.partitions] == [1, 0, 0]

    run_in_order(main)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_letters_of_many_batches_come_in_order(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "RECORDS_AT_ONCE", 7)
    records = [
        batch(*((f"{at}", f"{at}") for at in range(low, low + 10)), codec=codec, timestamp=NOW_MS) for low in (0, 10)
    ]

    async def main() -> None:
        async with queue(records=records, copies=True) as there:
            await there.create()
            await there.fetch()
            await there.say({at: REJECT if at % 3 else ACCEPT for at in range(20)})
            dead = [at for at in range(20) if at % 3]
            assert there.dead() == dead
            assert [(one.key, one.value) for one in there.letters()] == [(b"%d" % at, b"%d" % at) for at in dead]
            assert there.state.start_offset + there.state.delivery_complete_count == 20

    run_in_order(main)


def test_a_record_whose_codec_cannot_be_loaded_gets_a_letter_without_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [batch((f"{at}", "v"), codec=Codec.ZSTD, timestamp=NOW_MS) for at in range(2)]

    async def main() -> None:
        async with queue(records=records, copies=True) as there:
            await there.create()
            await there.fetch()
            with monkeypatch.context() as short:
                short.delitem(compression._LOADED, Codec.ZSTD)
                short.setitem(sys.modules, "ottla.protocol.codec_zstd", None)
                await there.say({0: REJECT})
            await there.say({1: REJECT})
            assert [(one.key, one.value) for one in there.letters()] == [(None, None), (b"1", b"v")]

    run_in_order(main)


def test_a_record_that_does_not_fit_into_memory_gets_a_letter_without_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(*_: object) -> None:
        raise MemoryError

    async def main() -> None:
        async with queue(records=ONE, copies=True) as there:
            await there.create()
            monkeypatch.setattr(letters, "_copy", copy)
            await reject(there)
            assert [(one.key, one.value) for one in there.letters()] == [(None, None)]

    run_in_order(main)


# The topic

REFUSALS: dict[str, tuple[str, dict[str, str], str | None]] = {
    "it is missing": (LETTERS, {}, None),
    "it is not enabled": (LETTERS, {}, "false"),
    "its name has another prefix": ("letters", {}, "true"),
    "the prefix is another one": (LETTERS, {"errors_deadletterqueue_topic_name_prefix": "dead."}, "true"),
    "the prefix of a topic to create is another one": (
        "letters",
        {"errors_deadletterqueue_auto_create_topics_enable": "true"},
        None,
    ),
    "a topic to create has no valid name": (
        "dlq.a b",
        {"errors_deadletterqueue_auto_create_topics_enable": "true"},
        None,
    ),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_records_are_archived_without_dead_letters_if_the_topic_is_refused(
    why: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, options, enabled = REFUSALS[why]

    async def main() -> None:
        async with queue(records=FIVE, name=name, options=options) as there:
            if enabled is not None:
                await there.create(name, errors_deadletterqueue_group_enable=enabled)
            await reject(there)
            assert there.dead(name) == []
            assert there.state.delivery_complete_count == 5
            assert (there.broker.services.topics.get(name) is None) == (enabled is None)
            assert await there.fetch() == []

    caplog.set_level(logging.ERROR, "ottla.sharing")
    run_in_order(main)
    (line,) = caplog.messages
    assert "records from offset 0 to 4 are archived without dead letters" in line


def test_the_topic_is_created_for_its_first_letter_if_the_broker_may() -> None:
    async def main() -> None:
        options = {"errors_deadletterqueue_auto_create_topics_enable": "true", "num_partitions": "4"}
        async with queue(records=FIVE, options=options) as there:
            await reject(there)
            assert there.dead() == [0, 1, 2, 3, 4]
            topic = there.broker.services.topics.get(LETTERS)
            assert topic is not None and len(topic.partitions) == 4
            assert topic.partitions[0].log.config.errors_deadletterqueue_group_enable

    run_in_order(main)


def test_share_partitions_that_need_the_topic_at_the_same_time_get_one_topic() -> None:
    async def main() -> None:
        options = {"errors_deadletterqueue_auto_create_topics_enable": "true", "num_partitions": "2"}
        async with queue(options=options) as there:
            writer = there.broker.services.coordinators.share_leaders._dead_letters
            found: dict[int, Partition] = {}

            async def look(index: int) -> None:
                found[index] = await writer._destination(LETTERS, index)

            async with trio.open_nursery() as nursery:
                for index in range(3):
                    nursery.start_soon(look, index)
            assert {index: partition.index for index, partition in found.items()} == {0: 0, 1: 1, 2: 0}

    run_in_order(main)


def test_an_empty_prefix_allows_any_name() -> None:
    async def main() -> None:
        async with queue(records=ONE, name="x", options={"errors_deadletterqueue_topic_name_prefix": ""}) as there:
            await there.create("x")
            await reject(there)
            assert there.dead("x") == [0]

    run_in_order(main)


def test_groups_have_no_dead_letters_without_a_name_or_below_share_version_2() -> None:
    async def main() -> None:
        async with queue(records=(*ONE, *ONE), name="") as there:
            await there.create()
            await reject(there)
            await there.configure(**{"errors.deadletterqueue.topic.name": LETTERS})
            down = FeatureUpdateKey(feature=SHARE_GROUPS, max_version_level=1, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
            await there.ask(UpdateFeaturesRequest(feature_updates=(down,), timeout_ms=1_000), 1)
            await there.produce(ONE[0])
            await reject(there)
            assert there.dead() == []
            assert there.state.delivery_complete_count + there.state.start_offset == 3

    run_in_order(main)


def test_a_compacted_topic_takes_the_letters_that_have_keys(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with queue(records=WITHOUT_KEY, copies=True) as there:
            await there.create(cleanup_policy="compact")
            await reject(there)
            assert there.dead() == [0, 2]
            assert there.state.delivery_complete_count == 3
            log = there.broker.services.topics.partition(LETTERS, 0).log
            (one,) = batches(log.read(0, max_bytes=1 << 20, up_to=2).read())
            assert one.record_count == 2, "each letter in a batch of its own would read its record's batch again"

    caplog.set_level(logging.ERROR, "ottla.sharing")
    run_in_order(main)
    (line,) = caplog.messages
    assert "records from offset 1 to 1 are archived without dead letters" in line


@pytest.mark.parametrize("comes_back", [True, False])
def test_letters_wait_for_a_leader_for_half_a_minute(comes_back: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with queue(records=FIVE) as there:
            await there.create()
            partition = there.broker.services.topics.partition(LETTERS, 0)
            leader, partition.leader = partition.leader, NO_LEADER
            await there.fetch()
            await there.say({0: REJECT, 1: REJECT})
            for wait_ms in 2_000, 4_000, 8_000:
                await pass_time(there.broker, wait_ms)
            await there.say({2: REJECT})
            await pass_time(there.broker, 15_999)
            assert [one.delivery_state for one in there.state.batches] == [ARCHIVING]
            if comes_back:
                partition.leader = leader
            await pass_time(there.broker, 1)
            assert there.dead() == ([0, 1, 2] if comes_back else [])
            assert there.state.start_offset + there.state.delivery_complete_count == 3

    caplog.set_level(logging.ERROR, "ottla.sharing")
    run_in_order(main)
    assert len(caplog.messages) == (0 if comes_back else 2)


def test_a_dropped_share_partition_gets_its_letters_from_its_next_leader(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with queue(records=FIVE, nodes=2) as there:
            await there.create()
            partition = there.broker.services.topics.partition(LETTERS, 0)
            leader, partition.leader = partition.leader, NO_LEADER
            await reject(there)
            other = 1 - there.connection.node
            await move_leader(there.broker, "t", 0, other)
            partition.leader = leader
            await pass_time(there.broker, 60_000)
            assert there.dead() == []
            there.connection = Connection(Member("m"), other)
            assert await there.fetch() == []
            await trio.testing.wait_all_tasks_blocked()
            assert there.dead() == [0, 1, 2, 3, 4]
            assert there.letters()[0].headers == headers(0, 1, REJECTED)

    caplog.set_level(logging.ERROR, "ottla.sharing")
    run_in_order(main)
    assert not caplog.messages


def test_an_unexpected_error_ends_neither_the_broker_nor_later_letters(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with queue(records=FIVE) as there:
            await there.create()
            await there.fetch()
            with monkeypatch.context() as broken:
                broken.delattr(SharePartition, "bury")
                await there.say({0: REJECT})
            await there.say({1: REJECT})
            assert there.dead() == [0, 1]

    caplog.set_level(logging.ERROR, "ottla.sharing")
    run_in_order(main)
    (line,) = caplog.messages
    assert line.startswith("cannot archive records of ")


def test_disconnecting_members_leave_no_tasks_while_letters_wait_for_a_leader() -> None:
    async def main() -> None:
        async with queue(records=FIVE) as there:
            await there.create()
            partition = there.broker.services.topics.partition(LETTERS, 0)
            leaders = there.broker.services.coordinators.share_leaders
            leader, partition.leader = partition.leader, NO_LEADER
            await reject(there)
            tasks = len(leaders._tasks.nursery.child_tasks)
            for _ in range(10):
                there.connection.close()
                await trio.testing.wait_all_tasks_blocked()
                there.connection.epoch, there.connection.client.farewell = 0, None
                assert await there.fetch() == []
            there.connection.close()
            await trio.testing.wait_all_tasks_blocked()
            assert (len(leaders._tasks.nursery.child_tasks), len(leaders)) == (tasks, 1)
            partition.leader = leader
            await pass_time(there.broker, BACKOFF_MS[0])
            assert (there.dead(), len(leaders)) == ([0, 1, 2, 3, 4], 0)

    run_in_order(main)


# Crashes


def test_one_thread_uses_the_disk() -> None:
    """The crashes below need one sequence of operations; fifty logs of the share coordinator could be made by many threads."""
    files, seen = CrashFiles(), set[int]()
    files.before_step = lambda: seen.add(threading.get_ident())

    async def main() -> None:
        async with queue(files):
            assert len(files.operations) > 50

    run_in_order(main)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("end", [reject, release])
def test_a_crash_loses_no_letter(end: Callable[[Queue], Awaitable[None]]) -> None:
    """Before each operation of the disk the broker is killed, or power fails: each record has its dead letter, or returns."""
    files, disks = CrashFiles(), dict[int, CrashFiles]()
    options = {"log_flush_interval_messages": "1"}
    seen: set[tuple[int, int]] = set()

    def keep_disks() -> None:
        for disk in files.copy(), next(files.after_crash(ordered=True)):
            disks[disk.digest()] = disk

    async def before() -> None:
        async with queue(files, FIVE, copies=True, options=options) as there:
            await there.create()
            files.before_step = keep_disks
            await end(there)
            files.before_step = None
            assert there.dead() == [0, 1, 2, 3, 4]

    async def after(disk: CrashFiles) -> None:
        async with queue(disk, options=options) as there:
            again = await there.fetch()
            await trio.testing.wait_all_tasks_blocked()
            dead = there.dead()
            assert {*again, *dead} == {0, 1, 2, 3, 4} and not {*again} & {*dead}
            assert all(one.key is not None for one in there.letters())
            seen.add((len(again), len(dead)))

    run_in_order(before)
    for disk in disks.values():
        disk.new_process()
        run_in_order(partial(after, disk))
    assert seen >= {(5, 0), (0, 5), (0, 10)}, "before, after and between: a letter may come twice"


# Contents


def dead(first: int, last: int, deliveries: int = 1) -> DeadRecords:
    return DeadRecords(first, last, deliveries, True)


def offsets(data: bytes | bytearray) -> list[int]:
    (made,) = batches(bytes(data))
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in made.records()]


def test_a_batch_has_the_letters_that_fit_and_tells_which_are_left() -> None:
    made = Letters(SOURCE, "g", NOW_MS)
    whole, left, _ = made.batch([dead(3, 5), dead(9, 9)], Copies({}, 10), 1 << 20)
    assert (offsets(whole), left) == ([3, 4, 5, 9], [])
    part, left, _ = made.batch([dead(3, 5), dead(9, 9)], Copies({}, 10), len(whole) - 1)
    assert offsets(part) == [3, 4, 5][: len(offsets(part))] and left[-1] == dead(9, 9)
    single, left, _ = made.batch([dead(3, 5)], Copies({}, 10), 1)
    assert (offsets(single), left) == ([3], [dead(4, 5)]), "the log refuses it"
    _, left, _ = made.batch([dead(3, 5)], Copies({}, 4), 1 << 20)
    assert left == [dead(4, 5)], "copies of the others were not read"


def test_letters_without_keys_are_left_out_if_the_topic_needs_keys() -> None:
    made = Letters(SOURCE, "g", NOW_MS)
    copies = Copies({3: Copy(None, b"v"), 5: Copy(b"k", None)}, 6)
    data, left, keyless = made.batch([dead(3, 7)], copies, 1 << 20, needs_keys=True)
    assert (offsets(data), left, keyless) == ([5], [dead(6, 7)], [dead(3, 3), dead(4, 4)])
    nothing = made.batch([dead(3, 7)], Copies({}, 5), 1 << 20, needs_keys=True)
    assert nothing == (bytearray(), [dead(5, 7)], [dead(3, 3), dead(4, 4)]), "copies of the others were not read"


def test_a_copy_is_left_out_only_if_it_does_not_fit_alone() -> None:
    made = Letters(SOURCE, "g", NOW_MS)
    copies = Copies({0: Copy(b"k", b"v" * 100), 1: Copy(b"k", b"v" * 500)}, 2)
    largest = len(made.batch([dead(1, 1)], copies, 1 << 20)[0])
    data, left, _ = made.batch([dead(1, 1)], copies, largest)
    (batch_made,) = batches(bytes(data))
    assert [record.value for record in batch_made.records()] == [b"v" * 500] and not left
    data, left, _ = made.batch([dead(0, 1)], copies, largest)
    assert (offsets(data), left) == ([0], [dead(1, 1)]), "it fits into the next batch"
    data, left, _ = made.batch([dead(1, 1)], copies, largest - 1)
    (batch_made,) = batches(bytes(data))
    assert [(record.key, record.value) for record in batch_made.records()] == [(None, None)] and not left


def test_batches_that_unpack_to_too_much_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "UNPACKED_BYTES_MAX", 10_000)
    records = (batch(("k", "v" * 20_000), codec=Codec.ZSTD, timestamp=NOW_MS), *ONE)

    async def main() -> None:
        async with queue(records=records, copies=True) as there:
            await there.create()
            await reject(there)
            assert [(one.key, one.value) for one in there.letters()] == [(None, None), (b"k", b"v")]

    run_in_order(main)


def test_a_batch_of_letters_is_small_even_if_the_topic_allows_more() -> None:
    values = ["x" * 300_000] * 9 + ["y" * 3_000_000] * 2 + ["z"]
    records = [batch(("k", value), timestamp=NOW_MS) for value in values]

    async def main() -> None:
        async with queue(records=records, copies=True, options={"message_max_bytes": "100000000"}) as there:
            await there.create(max_message_bytes="100000000")
            await there.fetch()
            leaders = there.broker.services.coordinators.share_leaders
            led = leaders.find(SharePartitionKey("g", there.topic_id, 0))
            assert led is not None
            leaders._dead_letters.add(led, [DeadRecords(0, 11, 1, True)])
            await trio.testing.wait_all_tasks_blocked()
            assert there.dead() == [*range(12)]
            assert [one.value for one in there.letters()] == [value.encode() for value in values]
            log = there.broker.services.topics.partition(LETTERS, 0).log
            sizes = [one.record_count for one in batches(log.read(0, max_bytes=1 << 30, up_to=12).read())]
            assert sizes == [3, 3, 3, 1, 1, 1]

    run_in_order(main)


def test_only_few_batches_of_letters_are_made_in_one_pass_of_the_scheduler() -> None:
    async def main() -> None:
        async with queue() as there:
            await there.create()
            await there.fetch()
            leaders = there.broker.services.coordinators.share_leaders
            led = leaders.find(SharePartitionKey("g", there.topic_id, 0))
            assert led is not None
            async with counting_passes() as passes, trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(leaders._dead_letters._write, led, [DeadRecords(0, 99, 1, True)])
            assert len(there.dead()) == 4_000
            assert passes.count >= 20

    run_in_order(main)


def test_one_batch_of_letters_is_no_larger_than_the_topic_allows() -> None:
    records = [batch(("k", "x" * 400), timestamp=NOW_MS) for _ in range(9)]

    async def main() -> None:
        async with queue(records=records, copies=True) as there:
            await there.create(max_message_bytes="2000")
            await reject(there)
            assert there.dead() == [*range(9)]
            assert all(one.value == b"x" * 400 for one in there.letters())
            log = there.broker.services.topics.partition(LETTERS, 0).log
            sizes = [one.size_bytes for one in batches(log.read(0, max_bytes=1 << 20, up_to=9).read())]
            assert min(sizes) > HEADER_BYTES and 1_000 < max(sizes) <= 2_000

    run_in_order(main)
