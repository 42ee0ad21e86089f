"""A model of the records of a share group, derived from its members' answers without a coordinator.

One member at a time has a record, until it acknowledges the record, the lock ends, its session ends, or the share partition is
reset. Once an answer said that a record is finished, it is not delivered again; all others are delivered again, up to the
limit of deliveries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ottla.server.sharing.share_states import ShareState

LOCK_MS = 30_000
DELIVERIES = 5
_TERMINAL = (2, 3, 4)
"""Acknowledged, archived as soon as its dead letter is written, archived."""


@dataclass(slots=True)
class Held:
    member: str
    until_ms: int


@dataclass(slots=True)
class Fate:
    """The state of one record.

    Attributes:
        is_over: Finished, and an answer said so.
        may_be_over: Perhaps finished, without an answer.
        count: Number of deliveries, as the last answer had it.
        written_count: Number of deliveries that is certainly persisted.
        is_dead: Given up by the group, and an answer said so: it must get a dead letter.
        is_accepted: Accepted, and an answer said so: it must get none.
    """

    is_over: bool = False
    may_be_over: bool = False
    count: int = 0
    written_count: int = 0
    held: Held | None = None
    is_dead: bool = False
    is_accepted: bool = False


class Ledger:
    """The records of a group, over the partitions of one topic."""

    def __init__(self, partitions: int) -> None:
        self.fates: list[list[Fate]] = [[] for _ in range(partitions)]
        self.now_ms = 0

    def produced(self, partition: int, count: int) -> None:
        self.fates[partition] += (Fate() for _ in range(count))

    def note_log_start(self, partition: int, before: int) -> None:
        """Note that the log no longer has the records below `before`."""
        for fate in self.fates[partition][:before]:
            fate.is_over, fate.held = True, None
            fate.is_dead = False  # it may have a dead letter, or have been removed before

    # Answers to members

    def delivered(self, member: str, partition: int, first: int, last: int, count: int) -> None:
        for offset in range(first, last + 1):
            fate = self.fates[partition][offset]
            where = f"{partition}:{offset} to {member}: {fate}"
            assert not fate.is_over, f"delivered again, {where}"
            assert fate.held is None, f"delivered to two, {where}"
            assert fate.written_count < count <= min(fate.count + 1, DELIVERIES), f"for the {count}th time, {where}"
            fate.count, fate.held = count, Held(member, self.now_ms + LOCK_MS)

    def holds(self, member: str, partition: int) -> list[int]:
        """Return the offsets of records that a member has and that cannot have been taken from it."""
        found = enumerate(self.fates[partition])
        return [offset for offset, fate in found if fate.held is not None and fate.held.member == member]

    def accepted(self, partition: int, offsets: Iterable[int]) -> None:
        """Note records whose acceptance was answered."""
        for offset in offsets:
            fate = self.fates[partition][offset]
            fate.is_over, fate.is_accepted, fate.held = True, True, None

    def rejected(self, partition: int, offsets: Iterable[int]) -> None:
        """Note records whose rejection was answered."""
        for offset in offsets:
            fate = self.fates[partition][offset]
            fate.is_over, fate.is_dead, fate.held = True, True, None

    def released(self, partition: int, offsets: Iterable[int]) -> None:
        """Note records whose release was answered."""
        for offset in offsets:
            fate = self.fates[partition][offset]
            fate.held, fate.written_count = None, fate.count
            fate.is_over |= fate.count == DELIVERIES
            fate.is_dead |= fate.is_over

    def renewed(self, partition: int, offsets: Iterable[int]) -> None:
        for offset in offsets:
            held = self.fates[partition][offset].held
            assert held is not None
            held.until_ms = self.now_ms + LOCK_MS

    def unheard(self, partition: int, offsets: Iterable[int]) -> None:
        """Note records that may be finished, without an answer."""
        for offset in offsets:
            self.fates[partition][offset].may_be_over = True

    # Ends without an answer

    def taken_back(self, partition: int | None = None, member: str | None = None) -> None:
        """Take the records of all members, or of one, away; they may have been persisted as released."""
        for each in self.fates if partition is None else [self.fates[partition]]:
            for fate in each:
                if fate.held is not None and member in (None, fate.held.member):
                    self._lapsed(fate)

    def time_passed(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for fates in self.fates:
            for fate in fates:
                if fate.held is not None and fate.held.until_ms <= self.now_ms:
                    self._lapsed(fate)

    def _lapsed(self, fate: Fate) -> None:
        fate.held = None
        fate.may_be_over |= fate.count == DELIVERIES

    # What has to hold

    def check(self, partition: int, state: ShareState, log_start_offset: int) -> None:
        """Compare with the share coordinator's persisted state.

        A record that is finished there must be finished, or perhaps finished, here. The reverse holds for records that are
        finished here.
        """
        terminal = (one for one in state.batches if one.delivery_state in _TERMINAL)
        over = {offset for one in terminal for offset in range(one.first_offset, one.last_offset + 1)}
        for offset, fate in enumerate(self.fates[partition]):
            where = f"{partition}:{offset}, {fate}, {state}"
            if offset < state.start_offset or offset in over:
                assert fate.is_over or fate.may_be_over, f"lost: {where}"
            elif offset >= log_start_offset:
                assert not fate.is_over, f"to come again: {where}"

    def check_letters(self, letters: Collection[tuple[int, int]]) -> None:
        """Check that the records that the group has given up have dead letters, and that none that was accepted has one. A
        record whose lock ended while its state could not be written may have a dead letter, and be delivered after a start."""
        for partition, fates in enumerate(self.fates):
            for offset, fate in enumerate(fates):
                has_letter = (partition, offset) in letters
                assert has_letter or not fate.is_dead, f"no dead letter: {partition}:{offset}, {fate}"
                assert not has_letter or fate.may_be_over or not fate.is_accepted, (
                    f"a dead letter: {partition}:{offset}, {fate}"
                )

    def left(self) -> list[tuple[int, int]]:
        """Return partition and offset of all records that must be delivered once more."""
        return [
            (partition, offset)
            for partition, fates in enumerate(self.fates)
            for offset, fate in enumerate(fates)
            if not fate.is_over and not fate.may_be_over
        ]
