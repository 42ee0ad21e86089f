"""Changes of the catalog that the disk refuses at any step: a restart finds what was answered.

A change that was answered as failed has not happened, neither at once nor after a kill or a power loss: the old state is
written back to the file. If the disk refuses that as well, a restart may find either state. Then nothing more is acknowledged,
as it could belong to a deleted topic.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from ottla.protocol.errors import KafkaError
from ottla.server.partitions.topics import Topic
from ottla.storage.topics.catalog_file import CatalogState
from support.broker.admin import set_topic_configs
from support.broker.stored_broker import StoredBroker, Values
from support.disk.crash_files import CrashFiles
from support.sizes import size

DIRS = ("/a", "/b")
REFUSED_EACH = size(2, 1)
"""One in this number of operations is refused."""


def grow(broker: StoredBroker) -> None:
    topic = broker.broker.services.topics.get("t")
    assert topic is not None
    trio.run(broker.broker.services.topic_admin.grow, topic, ((0,), (0,)))


def create_many(broker: StoredBroker) -> None:
    admin = broker.broker.services.topic_admin
    plans = [admin.planner.plan(f"new-{number}", num_partitions=2, replication_factor=1) for number in range(3)]
    made = trio.run(admin.create_all, plans)
    assert [topic.name for topic in made if isinstance(topic, Topic)] == ["new-0", "new-1", "new-2"]


def delete_many(broker: StoredBroker) -> None:
    services = broker.broker.services
    assert trio.run(services.topic_admin.delete_all, list(services.topics)) == [None, None]


def producer_id(broker: StoredBroker) -> None:
    trio.run(broker.broker.services.producer_ids.take)


CHANGES: dict[str, Callable[[StoredBroker], None]] = {
    "create": lambda broker: broker.create("new", 2),
    "create many": create_many,
    "delete": lambda broker: broker.delete("t"),
    "delete many": delete_many,
    "grow": grow,
    "configs of a topic": lambda broker: trio.run(set_topic_configs, broker.broker, "t", {"retention.ms": "5"}),
    "configs of the broker": lambda broker: trio.run(
        broker.broker.services.config_changes.alter_broker, "", {"log.retention.ms": "5", "min.insync.replicas": "1"}
    ),
    "producer ids": producer_id,
}


@dataclass(frozen=True)
class Outcome:
    """The result of one change, and of the appends after it."""

    files: CrashFiles
    power_lost: list[CrashFiles]
    """Disks that a power loss right after the answer may leave."""
    was_refused: bool
    """Whether the disk refused something."""
    answer: KafkaError | None
    acknowledged: Values
    """Everything in the logs, before and after the change."""
    went_on: bool
    """Whether appends after the change were acknowledged."""


@pytest.fixture(scope="module")
def start() -> CrashFiles:
    files = CrashFiles()
    with StoredBroker(files, DIRS) as broker:
        broker.create("t", 2, cleanup_policy="compact")
        broker.create("u")
        for index in range(2):
            broker.append("t", index, b"before")
    return files


def state_after(files: CrashFiles, *changes: Callable[[StoredBroker], None]) -> CatalogState:
    with StoredBroker(files.copy(), DIRS) as broker:
        for change in changes:
            change(broker)
        return broker.broker.services.cluster.catalog.state


def shape(state: CatalogState) -> Any:
    """Return the comparable part of a state: ids are random in each run."""
    topics = {name: (len(entry.partitions), dict(entry.configs)) for name, entry in state.topics.items()}
    return topics, {node: dict(configs) for node, configs in state.broker_configs.items()}


def outcomes(start: CrashFiles, change: Callable[[StoredBroker], None], *, for_good: bool) -> Iterator[Outcome]:
    """Refuse the change's first operation, its second, and so on; `for_good`: and all later ones of the catalog."""
    at = 0
    while True:
        files = start.copy()
        broker = StoredBroker(files, DIRS)
        refused = trouble(files, at, for_good)
        answer = None
        try:
            change(broker)
        except KafkaError as error:
            answer = error
        was_refused = bool(refused)
        if not for_good:
            files.refuse = None
        power_lost = list(files.after_crash(ordered=True, one_in=size(12, 1)))
        went_on = append_everywhere(broker)
        yield Outcome(files, power_lost, was_refused, answer, broker.values(), went_on)
        if not was_refused:
            return
        at += REFUSED_EACH


def trouble(files: CrashFiles, at: int, for_good: bool) -> list[str]:
    refused: list[str] = []
    seen = 0

    def refuse(operation: str, path: str, _: int) -> None:
        nonlocal seen
        is_it = seen == at
        seen += 1
        is_catalogs = "ottla.json" in path or (operation == "sync_dir" and path == "/a")
        if is_it or (refused and for_good and is_catalogs):
            refused.append(f"{operation} {path}")
            raise OSError(errno.EIO, "Input/output error", path)

    files.refuse = refuse
    return refused


def append_everywhere(broker: StoredBroker) -> bool:
    went_on = False
    for topic in list(broker.broker.services.topics):
        for partition in topic.partitions:
            try:
                broker.append(topic.name, partition.index, b"after")
                went_on = True
            except KafkaError:
                pass
    return went_on


def killed(files: CrashFiles) -> CrashFiles:
    files.refuse = None
    return files.copy()


def catalog_of(files: CrashFiles) -> CatalogState:
    with StoredBroker(files, DIRS) as broker:
        return broker.broker.services.cluster.catalog.state


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_refused_once_has_no_effect(start: CrashFiles, change: Callable[[StoredBroker], None]) -> None:
    before, after = shape(state_after(start)), shape(state_after(start, change))
    tried = 0
    for outcome in outcomes(start, change, for_good=False):
        tried += 1
        with StoredBroker(killed(outcome.files), DIRS) as broker:
            assert shape(broker.broker.services.cluster.catalog.state) == (before if outcome.answer else after)
            assert broker.values() == outcome.acknowledged
        for disk in outcome.power_lost:
            assert shape(catalog_of(disk)) == (before if outcome.answer else after)
    assert tried > 4 // REFUSED_EACH


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_unrevertible_change_causes_no_false_acknowledgement(
    start: CrashFiles, change: Callable[[StoredBroker], None]
) -> None:
    before, after = shape(state_after(start)), shape(state_after(start, change))
    doubtful = 0
    for outcome in outcomes(start, change, for_good=True):
        with StoredBroker(killed(outcome.files), DIRS) as broker:
            assert shape(broker.broker.services.cluster.catalog.state) in (
                (before, after) if outcome.answer else (after,)
            )
            if outcome.went_on:
                assert all(broker.values()[key] == values for key, values in outcome.acknowledged.items())
            elif outcome.answer:
                doubtful += 1
        for disk in outcome.power_lost:
            assert shape(catalog_of(disk)) in ((before, after) if outcome.answer else (after,))
    assert doubtful > 0


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_next_change_contains_nothing_of_a_refused_one(
    start: CrashFiles, change: Callable[[StoredBroker], None]
) -> None:
    def other(broker: StoredBroker) -> None:
        broker.create("other")

    both = shape(state_after(start, other)), shape(state_after(start, change, other))
    at = 0
    while True:
        files = start.copy()
        broker = StoredBroker(files, DIRS)
        refused = trouble(files, at, for_good=True)
        failed = False
        try:
            change(broker)
        except KafkaError:
            failed = True
        if not refused:
            return
        at += REFUSED_EACH
        files.refuse = None
        try:
            other(broker)
        except KafkaError:
            continue  # no log can be created any more
        assert shape(broker.broker.services.cluster.catalog.state) == both[not failed]
        assert shape(state_after(files)) == both[not failed]


def test_a_stop_reverts_changes_that_the_disk_refused_to_revert(start: CrashFiles) -> None:
    files = start.copy()
    with StoredBroker(files, DIRS) as broker:
        full = False
        admin = broker.broker.services.topic_admin
        plan = admin.planner.plan("new", num_partitions=2, replication_factor=1)

        async def create() -> None:
            await admin.create(plan, fill=lambda place, config: 0)

        def no_logs(operation: str, path: str, _: int) -> None:
            nonlocal full
            full = full or "/new-1" in path
            if full and operation in ("create", "append", "make_dir"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        files.refuse = no_logs
        with pytest.raises(KafkaError, match="No space left"):
            trio.run(create)
        files.refuse = None
    assert shape(state_after(files)) == shape(state_after(start))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_kill_during_a_change_leaves_the_old_or_new_state(
    start: CrashFiles, change: Callable[[StoredBroker], None]
) -> None:
    states = shape(state_after(start)), shape(state_after(start, change))
    files = start.copy()
    broker = StoredBroker(files, DIRS)
    seen: list[CrashFiles] = []
    files.before_step = lambda: seen.append(files.copy())
    change(broker)
    files.before_step = None
    for disk in [*seen, files.copy()]:
        with StoredBroker(disk, DIRS) as restarted:
            assert shape(restarted.broker.services.cluster.catalog.state) in states
            for (topic, _), values in restarted.values().items():
                assert values == ([b"before"] if topic == "t" and values else [])
