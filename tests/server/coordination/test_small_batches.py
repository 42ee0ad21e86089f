"""Internal topics that accept only small batches: every writer of tombstones ends its round, and a refusal costs one batch.

KAFKA-13099: if a constant sets the size of batches, a small `max.message.bytes` keeps everything from expiring for ever.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import KafkaError
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import MemoryStore
from support.groups.settings import transaction_settings
from support.noted import each_case
from support.sharing.states import States, key
from support.sizes import size
from support.transactions.transactions import Transactions

DAY_MS = 86_400_000
ROUND_MS = 8 * DAY_MS
"""A time longer than ids and offsets are kept, and than all intervals."""


class Writer(ABC):
    """A writer of tombstones for objects that have names."""

    store: MemoryStore

    @abstractmethod
    def plant(self, name: str) -> None:
        """Create an object with this name."""

    @abstractmethod
    def next_round(self) -> None:
        """Let the coordinator write that all objects were deleted."""

    @abstractmethod
    def left(self) -> set[str]:
        """Return the objects that still exist."""

    def left_after_a_restart(self) -> set[str]:
        """Return the objects that a restart finds, which only has the log."""
        return self.left()


class TransactionalIds(Writer):
    def __init__(self) -> None:
        self.transactions = Transactions(settings=transaction_settings(transactional_id_expiration_ms=4_000))
        self.store = self.transactions.store
        self.names: set[str] = set()

    def plant(self, name: str) -> None:
        self.names.add(name)
        self.transactions.init(name)

    def next_round(self) -> None:
        self.transactions.advance(ROUND_MS)

    def left(self) -> set[str]:
        return {name for name in self.names if self.transactions.knows(name)}

    def left_after_a_restart(self) -> set[str]:
        later = Transactions(after=self.transactions)
        return {name for name in self.names if later.knows(name)}


class InGroups(Writer):
    """The objects are groups, each with an offset."""

    def __init__(self) -> None:
        self.groups = ConsumerGroups(MemoryStore(1), t=1)
        self.store = self.groups.store

    def plant(self, name: str) -> None:
        self.groups.commit({("t", 0): 1}, group=name)

    def next_round(self) -> None:
        self.groups.advance(ROUND_MS)

    def left(self) -> set[str]:
        return _groups_of(self.groups)

    def left_after_a_restart(self) -> set[str]:
        return _groups_of(self.groups.restarted())


def _groups_of(groups: ConsumerGroups) -> set[str]:
    return {group.group_id for group in groups.list_groups([0], [], [])}


class IdleConsumerGroups(InGroups):
    def plant(self, name: str) -> None:
        self.groups.enter("a", "t", group=name)
        self.groups.beat("a", -1, group=name)


class InATopicThatGoes(InGroups):
    """The groups stay; their offsets are deleted with the topic."""

    def next_round(self) -> None:
        if self.groups.topics.id_of("t") is None:
            self.groups = self.groups.restarted()  # the rest of a deletion is handled at the next load
        else:
            self.groups.delete_topic("t")

    def left(self) -> set[str]:
        return {name for name in super().left() if self.groups.committed(group=name)}

    def left_after_a_restart(self) -> set[str]:
        self.groups.topics.put("t", 1)
        later = self.groups.restarted()
        return {name for name in _groups_of(later) if later.committed(group=name)}


class InATopicThatWentUnseen(InATopicThatGoes):
    """The coordinator was not loaded when the topic was deleted."""

    def next_round(self) -> None:
        if self.groups.topics.id_of("t") is not None:
            self.groups.topics.delete("t")
        self.groups = self.groups.restarted()


class OffsetsOfOneGroup(Writer):
    """The objects are topics in which a group has committed."""

    def __init__(self) -> None:
        self.groups = ConsumerGroups(MemoryStore(1))
        self.store = self.groups.store

    def plant(self, name: str) -> None:
        self.groups.topics.put(name, 1)
        self.groups.commit({(name, 0): 1})

    def next_round(self) -> None:
        self.groups.advance(ROUND_MS)

    def left(self) -> set[str]:
        return {topic for topic, _ in self.groups.committed()}

    def left_after_a_restart(self) -> set[str]:
        return {topic for topic, _ in self.groups.restarted().committed()}


class DeletedOffsets(OffsetsOfOneGroup):
    def next_round(self) -> None:
        places = [(name, 0) for name in sorted(self.left())]
        try:
            self.groups.delete_offsets("g", places, self.groups.now_ms)
        except KafkaError:
            assert self.left(), "an error says that something stays"


class DeletedGroup(OffsetsOfOneGroup):
    def next_round(self) -> None:
        try:
            self.groups.delete_group("g", self.groups.now_ms)
        except KafkaError:
            assert self.left()
        else:
            assert not _groups_of(self.groups)


class StatesOfShareGroups(Writer):
    """The objects are share groups with the state of a partition, whose topic is deleted."""

    def __init__(self) -> None:
        self.states = States()
        self.store = self.states.store

    def plant(self, name: str) -> None:
        self.states.begin(key(group=name))

    def next_round(self) -> None:
        self.states.topics.clear()
        self.states.advance(60_000)

    def left(self) -> set[str]:
        return {one.group_id for one in self.states.all()}


WRITERS = (
    TransactionalIds,
    InGroups,
    IdleConsumerGroups,
    InATopicThatGoes,
    InATopicThatWentUnseen,
    OffsetsOfOneGroup,
    DeletedOffsets,
    DeletedGroup,
    StatesOfShareGroups,
)

ROUNDS = [(1, 400), (1, 2_000), (50, 2_000), (50, 400), (240, 400), (240, 2_000)]
"""Characters of a name, and bytes of a batch."""


@each_case("writer_type", WRITERS)
@each_case("name_chars, batch_bytes", size(ROUNDS[::4], ROUNDS))
def test_a_round_ends_at_any_batch_size(writer_type: type[Writer], name_chars: int, batch_bytes: int) -> None:
    writer = writer_type()
    names = {f"{number:x}".rjust(name_chars, "n") for number in range(16 if name_chars == 1 else 40)}
    for name in sorted(names):
        writer.plant(name)
    assert writer.left() == names
    writer.store.batch_bytes_max = batch_bytes
    writer.next_round()
    assert writer.left() == set()
    assert writer.left_after_a_restart() == set()


@pytest.mark.parametrize("writer_type", WRITERS)
def test_a_refusal_costs_its_own_batch(writer_type: type[Writer]) -> None:
    """One name in the middle is longer than a batch; once batches may be larger it is written in the next round."""
    writer = writer_type()
    long_name = "m" * 240
    for name in ("a", "b", "k", long_name, "p", "q", "z"):
        writer.plant(name)
    writer.store.batch_bytes_max = 200
    writer.next_round()
    assert writer.left() == {long_name}
    writer.store.batch_bytes_max = 1_000
    writer.next_round()
    assert writer.left() == set()
    assert writer.left_after_a_restart() == set()


ONE_EVENT = "what one event or request says, for all or for nothing: a refusal is told to whoever asked, or tried again"
APPENDS = {
    "coordination/store.py": "split by what the partition takes; nothing else writes tombstones of many things",
    "groups/classic_requests.py": ONE_EVENT,
    "groups/consumer/migration.py": ONE_EVENT,
    "groups/consumer/protocol.py": ONE_EVENT,
    "groups/coordinator.py": ONE_EVENT,
    "groups/offset_commits.py": ONE_EVENT,
    "groups/txn_commits.py": ONE_EVENT,
    "groups/share/protocol.py": ONE_EVENT,
    "groups/streams/protocol.py": ONE_EVENT,
    "groups/streams/target_jobs.py": ONE_EVENT,
    "sharing/state_coordinator.py": "a record of one share partition",
    "transactions/coordinator.py": "a record of one transactional id",
}


def test_every_module_that_appends_is_listed() -> None:
    """The entry of a new module says why its batches fit, and what a refusal costs."""
    server = Path(ottla.__file__).parent / "server"
    found = set()
    for path in server.rglob("*.py"):
        text = path.read_text()
        if "store" not in text or ".append(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="store") | ast.Attribute(attr="_store"), attr="append")
                ):
                    found.add(str(path.relative_to(server)))
    assert found == set(APPENDS)
