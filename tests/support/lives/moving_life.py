"""A history of a server with two nodes and two data directories: partitions move between these, and to the other node.

Records are produced at each stage of a move, and DeleteRecords arrives during one. A topic is deleted under a move and created
again, and a reassignment is slowed by a throttle. Whatever happens, the next start finds one whole log of each partition,
with what was answered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.config.resources import ConfigResourceType
from ottla.storage.disk.paths import TopicPartition
from support.broker.in_process_broker import InProcessClient, pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.lives.server_life import NOTHING, Key, Ledger, Life, Owed, committed_values, record, topic

DIRS = ("/d", "/e")
NAMES = ("a", "b")
OPTIONS = {
    "log_dirs": ",".join(DIRS),
    "log_flush_interval_messages": "1",
    "log_segment_delete_delay_ms": "1000",
    "follower_replication_throttled_rate": "100",
}
MOVED_BY_MS = 120_000
"""After this time every move has ended."""


def replicas(name: str) -> Key:
    return "replicas", name


class MovingLife(Life):
    """The additional requests of this script. The leader of the partition receives each."""

    def _at(self, name: str) -> bool:
        """Send requests to the leader of a topic's partition from now on; return False if the topic does not exist."""
        there = self.broker.services.topics.get(name)
        if there is None:
            return False
        self.client = InProcessClient(self.broker, node=there.partitions[0].leader)
        return True

    async def produce(self, name: str, incarnation: int, value: str, *, at_ms: int = 0) -> bool:
        return self._at(name) and await super().produce(name, incarnation, value, at_ms=at_ms)

    async def delete_records(self, name: str, up_to: int, gone: Mapping[Key, Hashable]) -> bool:
        return self._at(name) and await super().delete_records(name, up_to, gone)

    async def move(self, name: str) -> bool:
        """Move to the other data directory; the move continues after the answer."""
        if not self._at(name):
            return False
        here = self.broker.services.logs.logs[TopicPartition(name, 0)].data_dir
        (target,) = {*DIRS} - {here}
        wanted = AlterReplicaLogDir(path=target, topics=(AlterReplicaLogDirTopic(name=name, partitions=(0,)),))
        answer = await self.client.ask(AlterReplicaLogDirsRequest(dirs=(wanted,)), 2)
        return bool(answer.results[0].partitions[0].error_code == ErrorCode.NONE)

    async def throttle(self, name: str) -> None:
        """Throttle all new replicas of a topic."""
        change = AlterableConfig(name="follower.replication.throttled.replicas", config_operation=0, value="*")
        resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=name, configs=(change,))
        await self.client.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1)

    async def reassign(self, name: str) -> bool:
        """Move to the other node."""
        if not self._at(name):
            return False
        (present,) = self.broker.services.topics.partition(name, 0).replicas
        partition = ReassignablePartition(partition_index=0, replicas=(1 - present,))
        wanted = ReassignableTopic(name=name, partitions=(partition,))
        for either in (present, 1 - present):  # until it has caught up
            self.ledger.ask({replicas(name): (either,)})
        answer = await self.client.ask(AlterPartitionReassignmentsRequest(topics=(wanted,), timeout_ms=1_000), 0)
        return bool(answer.responses[0].partitions[0].error_code == ErrorCode.NONE)


async def first_day(life: MovingLife) -> None:
    """Move to the other directory and back, with records at each stage."""
    await life.create("a", 1, segment_ms=1_000)
    has_first = await life.produce("a", 1, "1")
    await life.produce("a", 1, "2", at_ms=5_000)  # in another segment
    await life.move("a")
    await life.produce("a", 1, "3", at_ms=5_000)
    await trio.testing.wait_all_tasks_blocked()
    await life.produce("a", 1, "4", at_ms=5_000)
    await life.move("a")
    if has_first:  # otherwise the offset belongs to another record
        await life.delete_records("a", 1, {record("a", 1, "1"): None})
    await life.produce("a", 1, "5", at_ms=11_000)
    await pass_time(life.broker, 6_000)
    await life.produce("a", 1, "6", at_ms=11_000)


async def second_day(life: MovingLife) -> None:
    """Move during a reassignment, and move a topic that is deleted during the move."""
    if not await life.create("b", 1):
        return
    await life.produce("b", 1, "1")
    await life.throttle("a")
    await life.reassign("a")
    await life.produce("a", 1, "7", at_ms=11_000)
    await life.move("a")
    await life.move("b")
    if await life.delete("b", {record("b", 1, "1"): None}) and await life.create("b", 2):
        await life.produce("b", 2, "2")
        await life.move("b")
    await pass_time(life.broker, 2_000)
    await life.produce("a", 1, "8", at_ms=11_000)
    await pass_time(life.broker, MOVED_BY_MS)
    await life.produce("a", 1, "9", at_ms=11_000)


DAYS = (first_day, second_day)


async def live(files: CrashFiles, ledger: Ledger) -> None:
    """Run each day as a start and a stop of its own."""
    for day in DAYS:
        files.new_process()
        async with running(files, 2, **OPTIONS) as (broker, client):
            await day(MovingLife(broker, client, ledger))


@dataclass(frozen=True)
class Found:
    """The state of a restarted server after every move has ended."""

    topics: Mapping[str, int]
    """max.message.bytes by name."""
    records: Mapping[str, tuple[str, ...]]
    replicas: Mapping[str, tuple[int, ...]]
    directories: tuple[str, ...]
    """Directories of partitions, whole or unfinished, and of those that should have been deleted."""
    under_way: int
    """Number of moves and reassignments."""


def restart_and_look(files: CrashFiles) -> Found:
    """Start on this disk, wait until every move has ended, look, and stop."""

    async def work() -> Found:
        async with running(files, 2, **OPTIONS) as (broker, _):
            await trio.testing.wait_all_tasks_blocked()
            for _again in range(3):
                await pass_time(broker, MOVED_BY_MS)
            services = broker.services
            entries = services.cluster.catalog.topics
            there = {name: services.topics.partition(name, 0) for name in NAMES if name in entries}
            return Found(
                topics={name: int(entries[name].configs["max.message.bytes"]) for name in there},
                records={name: committed_values(each.log) for name, each in there.items()},
                replicas={name: each.replicas for name, each in there.items()},
                directories=tuple(
                    name
                    for each in DIRS
                    for name in files.list(each)
                    if name.startswith(tuple(f"{n}-0" for n in NAMES))
                ),
                under_way=len(services.moves.under_way) + len(services.cluster.under_way),
            )

    return run_in_order(work)


def check(found: Found, owed: Owed) -> None:
    """Raise AssertionError if something is lost, invented or duplicated, or if a move never ends."""

    def may_be(key: Key, value: Hashable) -> None:
        allowed = owed.get(key, NOTHING)
        assert value in allowed, f"{key} is {value!r}, may be {sorted(map(str, allowed))}"

    assert not found.under_way, f"{found.under_way} moves or reassignments never end"
    # After a topic's deletion on a disk that accepted nothing more, a start leaves everything that it finds.
    served = [
        name
        for name in found.directories
        if not name.endswith("-stray") and not (name.endswith("-future") and name.partition("-")[0] not in found.topics)
    ]
    assert sorted(served) == sorted(f"{name}-0" for name in found.topics), f"directories are {found.directories}"
    for name in NAMES:
        may_be(topic(name), found.topics.get(name))
    incarnations = {name: 2 if size == 1_002 else 1 for name, size in found.topics.items()}
    for name, values in found.records.items():
        assert list(values) == sorted(set(values)), f"{name} has records twice, or in another order: {values}"
        for value in values:
            assert True in owed.get(record(name, incarnations[name], value), NOTHING), f"{name}: {value} from nowhere"
    for key in owed:
        if key[0] == "record" and incarnations.get(str(key[1])) == key[2]:
            may_be(key, True if key[3] in found.records[str(key[1])] else None)
        elif key[0] == "replicas" and str(key[1]) in found.replicas:
            may_be(key, found.replicas[str(key[1])])
