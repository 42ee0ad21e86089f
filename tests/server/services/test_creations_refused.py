"""Creations of topics that the disk refuses at any step: nothing is left, neither at once nor once the disk works again."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import count

import pytest
import trio

from ottla.protocol.errors import KafkaError
from ottla.server.partitions.internal_topics import INTERNAL_TOPICS
from ottla.storage.logs.log_parts import LogPlace
from ottla.storage.topics.config import LogConfig
from support.broker.stored_broker import StoredBroker
from support.disk.crash_files import CrashFiles
from support.sizes import size, some

DIRS = ("/a", "/b")
FEW = dict.fromkeys(
    (
        "offsets.topic.num.partitions",
        "share.coordinator.state.topic.num.partitions",
        "transaction.state.log.num.partitions",
    ),
    "2",
)


def auto_create(broker: StoredBroker) -> None:
    admin = broker.broker.services.topic_admin
    trio.run(admin.create_all, [admin.planner.plan("new")])


def internal(name: str) -> Callable[[StoredBroker], None]:
    def create(broker: StoredBroker) -> None:
        trio.run(broker.broker.services.topic_admin.create_internal, name)

    return create


def grow(broker: StoredBroker) -> None:
    topic = broker.broker.services.topics.get("t")
    assert topic is not None
    trio.run(broker.broker.services.topic_admin.grow, topic, ((0,), (0,)))


def filled(broker: StoredBroker) -> None:
    def fill(place: LogPlace, config: LogConfig) -> int:
        return 7

    admin = broker.broker.services.topic_admin
    plan = admin.planner.plan("new", num_partitions=2, replication_factor=1)

    async def main() -> None:
        await admin.create(plan, fill=fill)

    trio.run(main)


NOT_INTERNAL: dict[str, Callable[[StoredBroker], None]] = {
    "create": lambda broker: broker.create("new", 2),
    "auto-create": auto_create,
    "grow": grow,
    "filled": filled,
}
KINDS = {
    **NOT_INTERNAL,
    **{name: internal(name) for name in sorted(INTERNAL_TOPICS)},
}


def names(files: CrashFiles) -> list[str]:
    return sorted(name for data_dir in DIRS for name in files.list(data_dir) if "-" in name and "." not in name[:1])


@pytest.fixture(scope="module")
def start() -> CrashFiles:
    files = CrashFiles()
    with StoredBroker(files, DIRS, options=FEW) as broker:
        broker.create("t", 1)
    return files


def refusals(start: CrashFiles, kind: str, *, lasts: bool) -> Iterator[int]:
    """Refuse the operation of that number, and with `lasts` all after it; yield the number, until none was refused."""
    step = size(4 if lasts else 2, 1)
    for number in count(list(KINDS).index(kind) % step, step):
        files = start.copy()
        files.new_process()
        with StoredBroker(files, DIRS, options=FEW) as broker:
            before = names(files)
            seen, refused = 0, 0

            def refuse(operation: str, path: str, _: int, number: int = number) -> None:
                nonlocal seen, refused
                seen += 1
                # A directory that cannot be synced fails as a whole, and accepts no creation after that.
                if seen == number + 1 or (lasts and seen > number and not operation.startswith("sync")):
                    refused += 1
                    raise OSError(errno.EMFILE, f"{path}: {operation} refused")

            files.refuse = refuse
            try:
                KINDS[kind](broker)
                has_failed = False
            except KafkaError:
                has_failed = True
            files.refuse = None
            if not refused:
                return
            if has_failed and not broker.broker.services.logs.failures:
                if not lasts:
                    assert names(files) == before, f"operation {number} left something"
                KINDS[kind](broker)
            assert not [name for name in names(files) if name.endswith("-stray")], f"operation {number}"
        yield number


@pytest.mark.parametrize("lasts", [False, True], ids=["one operation", "all from one on"])
@pytest.mark.parametrize("kind", [*NOT_INTERNAL, *some(sorted(INTERNAL_TOPICS), 1)])
def test_a_creation_that_the_disk_refuses_leaves_nothing(start: CrashFiles, kind: str, lasts: bool) -> None:
    assert len(list(refusals(start, kind, lasts=lasts))) >= size(1, 5)
