"""The expected contents of the log: every update's key and value can be computed, every acknowledged offset is noted.

Update number n is sent with timestamp `first_timestamp_ms + n`, so any record read back, even a tombstone, identifies its
update.
"""

import random
import threading
from array import array
from collections.abc import Sequence
from itertools import pairwise

POOL_BYTES = 1 << 20
NOT_WRITTEN = -1


class Model:
    """Updates 0 … count-1 over `key_count` keys, 1 % of them deletes; and the outcome of each.

    Attributes:
        written: offset -> update number, NOT_WRITTEN where nothing was acknowledged.
        unknown: updates that were sent and neither acknowledged nor refused (the broker died): they may be in the
            log or not.
    """

    def __init__(self, count: int, key_count: int, first_timestamp_ms: int, seed: int) -> None:
        chance = random.Random(seed)
        self.count, self.key_count, self.first_timestamp_ms = count, key_count, first_timestamp_ms
        self.keys = array("I", (chance.randrange(key_count) for _ in range(count)))
        self.deletes = bytearray(chance.random() < 0.01 for _ in range(count))
        # Four fifths random: codecs find something to do, and a batch that lost records to the cleaner is not much
        # bigger per record than a full one, so the dirty ratio (of bytes) bounds the records as well.
        self.pool = b"".join(chance.randbytes(64) + b"." * 16 for _ in range(POOL_BYTES // 80))
        self.written = array("q", [NOT_WRITTEN]) * (count + 1024)
        self.acknowledged = 0
        self.end_offset = 0
        self.unknown: set[int] = set()
        self.lock = threading.Lock()

    def key(self, update: int) -> bytes:
        return b"key-%08d" % self.keys[update]

    def value(self, update: int) -> bytes | None:
        if self.deletes[update]:
            return None
        start = update * 7919 % (len(self.pool) - 400)
        return b"%d|" % update + self.pool[start : start + 100 + update % 250]

    def timestamp_ms(self, update: int) -> int:
        return self.first_timestamp_ms + update

    def update_of(self, timestamp_ms: int) -> int | None:
        update = timestamp_ms - self.first_timestamp_ms
        return update if 0 <= update < self.count else None

    def acknowledge(self, update: int, offset: int) -> None:
        """Note the broker's acknowledgement of `update` at `offset`.

        ValueError if it acknowledged another update at it before.
        """
        with self.lock:
            if offset >= len(self.written):
                self.written.extend([NOT_WRITTEN] * (offset + 1024 - len(self.written)))
            if self.written[offset] not in (NOT_WRITTEN, update):
                raise ValueError(f"offset {offset} was given to update {self.written[offset]} and to {update}")
            self.written[offset] = update
            self.acknowledged += 1
            self.end_offset = max(self.end_offset, offset + 1)

    def newest_offsets(self) -> dict[int, int]:
        """key number -> offset of its newest update that is known to be in the log."""
        newest: dict[int, int] = {}
        for offset, update in enumerate(self.written[: self.end_offset]):
            if update != NOT_WRITTEN:
                newest[self.keys[update]] = offset
        return newest

    def superseding(self, since: int) -> dict[int, int]:
        """Return offset -> offset of the same key's next known update in the log, for offsets from `since` on that have one."""
        following: dict[int, int] = {}
        next_of: dict[int, int] = {}
        for offset in range(self.end_offset - 1, since - 1, -1):
            if (update := self.written[offset]) != NOT_WRITTEN:
                key = self.keys[update]
                if key in next_of:
                    following[offset] = next_of[key]
                next_of[key] = offset
        return following


class Reading:
    """A consumer's reading from the beginning, checked record by record against the model.

    Records of unknown updates are added to the model at their offsets.

    Attributes:
        offsets: offsets seen, ascending.
        faults: one line for each violation; empty is good.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.offsets = array("q")
        self.faults: list[str] = []

    def see(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        model = self.model
        update = model.update_of(timestamp_ms)
        if self.offsets and offset <= self.offsets[-1]:
            self.fault(f"offset {offset} came after {self.offsets[-1]}")
        self.offsets.append(offset)
        if update is None:
            self.fault(f"offset {offset} has timestamp {timestamp_ms}, which no update has")
            return
        known = model.written[offset] if offset < len(model.written) else NOT_WRITTEN
        if known == NOT_WRITTEN and update in model.unknown:
            model.unknown.discard(update)
            model.acknowledge(update, offset)
        elif known != update:
            self.fault(f"offset {offset} holds update {update}, acknowledged was {known}")
        if key != model.key(update) or value != model.value(update):
            self.fault(f"offset {offset}: key or value of update {update} changed")

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def finish(
        self, first_dirty_offset: int | None = None, bases: Sequence[int] = (0,), *, are_as_read: bool = True
    ) -> None:
        """Judge what was not seen: the newest update of each key, and dirty records that no pass can have removed.

        Args:
            bases: The base offsets of the segments when the reading began, in order.
            are_as_read: Whether the segments stayed the same; otherwise the cleaner has changed some during the reading.
        """
        seen = set(self.offsets)
        newest = self.model.newest_offsets()
        for key, offset in newest.items():
            if offset not in seen:
                self.fault(f"key {key}: its newest update, acknowledged at {offset}, is lost")
        if first_dirty_offset is not None:
            self._judge_dirty(first_dirty_offset, bases, seen, are_as_read=are_as_read)

    def _judge_dirty(self, first_dirty_offset: int, bases: Sequence[int], seen: set[int], *, are_as_read: bool) -> None:
        """Judge the dirty records that are missing.

        A broker that is killed, or read, between a pass's swap of a segment and its checkpoint has cleaned records that the
        checkpoint calls dirty. But a pass leaves no superseded record in a segment if it removed others that the same records
        supersede. It does not touch the active segment, and records of that segment supersede nothing for it.
        """
        following = self.model.superseding(first_dirty_offset)
        active, end = bases[-1], max(self.model.end_offset, bases[-1])
        for low, high in pairwise([*bases, end] if are_as_read else [0, active, end]):
            known = [one for one in range(max(low, first_dirty_offset), high) if self.model.written[one] != NOT_WRITTEN]
            missing = [one for one in known if one not in seen and one in following]
            if not missing:
                continue
            reach = max(following[one] for one in missing)
            left = next((one for one in known if one in seen and following.get(one, reach + 1) <= reach), None)
            if low == active:
                why = "in the active segment"
            elif reach >= active:
                why = f"superseded in the active segment, at {reach}"
            elif are_as_read and left is not None:
                why = f"{left}, superseded as well, is there"
            else:
                continue
            at = f"above the first dirty offset {first_dirty_offset}"
            self.fault(f"offset {missing[0]} and {len(missing) - 1} more are lost {at}: {why}")

    def live_keys(self) -> int:
        """Return the number of keys whose newest record has a value: the size of the reader's table."""
        deletes, written = self.model.deletes, self.model.written
        return sum(1 for offset in self.model.newest_offsets().values() if not deletes[written[offset]])
