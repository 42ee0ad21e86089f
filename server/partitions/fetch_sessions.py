"""Fetch sessions (KIP-227): the broker stores a client's partitions, so polls contain only changes.

A session belongs to one node. A full fetch (epoch 0) opens one. Each later fetch increments the epoch, and adds, changes and
forgets partitions. Its answer contains only the partitions that have something new: records, an error, or a moved high
watermark or log start offset.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.steps import A_PIECE, Steps

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
# Minimum age of an idle session that may be evicted for a new one (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
EVICTION_AGE_MS = 120_000
# Average number of partitions per session slot, which limits the partitions of all sessions together. A partition takes several
# hundred bytes, and a request may name a hundred thousand.
PARTITIONS_A_SLOT = 50

# A request may contain names that no topic can have, of 32 KiB each; these are answered, but not stored.
NAME_CHARS_MAX = 249
# Cost of a topic, in addition to its partitions, counted in partitions.
A_TOPIC = 4

TopicKey = str | bytes
"""A topic name up to Fetch 12, a topic id from 13 on."""


class Reader(NamedTuple):
    """A consumer, as its fetches show it."""

    client_id: str
    client_host: str
    peer: str
    """HOST:PORT of its connection."""


@dataclass(slots=True)
class FetchItem:
    """One partition that a client fetches, and the last values in an answer to the client."""

    topic: TopicKey
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must contain this partition. The values of that answer are stored."""
        news = bool(data.records)
        if data.high_watermark != self.told_high_watermark:
            news = True
            self.told_high_watermark = data.high_watermark
        if data.log_start_offset != self.told_log_start_offset:
            news = True
            self.told_log_start_offset = data.log_start_offset
        if data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch != -1:
            news = True
            # The next success must be in the answer, whatever its values.
            self.told_high_watermark = -1
        return news


@dataclass(slots=True)
class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    session_id: int
    by_topic_id: bool
    items: dict[tuple[TopicKey, int], FetchItem]
    next_epoch: int
    last_used_at_ms: int
    """Elapsed time of the last use."""
    reader: Reader
    counted: int = 0
    """Number of its partitions that `FetchSessions.partition_count` has."""


Begun: TypeAlias = Steps[tuple[FetchSession | None, list[FetchItem]]]


class FetchSessions:
    """The sessions of one node, at most `max_sessions` (`max.incremental.fetch.session.cache.slots`), with a limited number of
    partitions. A client that gets no session continues with full fetches. Apache Kafka limits the number of sessions only."""

    def __init__(self, max_sessions: int, rng: random.Random) -> None:
        self._max_sessions = max_sessions
        self._rng = rng
        self._max_partitions = max_sessions * PARTITIONS_A_SLOT
        self._sessions: dict[int, FetchSession] = {}  # Least recently used first.
        self.partition_count = 0
        """Number of partitions of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def present(self) -> list[FetchSession]:
        """Return all sessions, the least recently used first."""
        return list(self._sessions.values())

    def clear(self) -> None:
        """Forget all sessions; their clients open new ones."""
        self._sessions.clear()
        self.partition_count = 0

    def forget(self, session_id: int) -> None:
        """Close a session, if it exists: its client opens a new one."""
        self._drop(session_id)

    def _count(self, session: FetchSession) -> None:
        """Update the number of partitions of a session that is new or has changed; ignore a closed one."""
        if self._sessions.get(session.session_id) is not session:
            return
        self.partition_count += len(session.items) - session.counted
        session.counted = len(session.items)

    def _drop(self, session_id: int) -> None:
        if (session := self._sessions.pop(session_id, None)) is not None:
            self.partition_count -= session.counted

    def begin(
        self, request: FetchRequest, by_topic_id: bool, elapsed_ms: Callable[[], int], reader: Callable[[], Reader]
    ) -> Begun:
        """Return the session of `request` (None without one), and the partitions to read.

        Up to A_PIECE partitions are one piece. The first piece sets the next epoch of the session, so no other request changes
        it. If the later pieces are not run, the session keeps the changes so far, and they are counted.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
                FETCH_SESSION_TOPIC_ID_ERROR. Then nothing has changed, except that a session that became too large, or got a
                name that no topic can have, is closed.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._drop(session_id)
            items: dict[tuple[TopicKey, int], FetchItem] = {}
            may_open, left = epoch == INITIAL_EPOCH, A_PIECE
            for topic in request.topics:
                may_open = may_open and len(topic.topic) <= NAME_CHARS_MAX
                left -= A_TOPIC + len(topic.partitions)
                for wanted in topic.partitions:
                    if left < 0:
                        yield
                    item = item_of(topic, wanted, by_topic_id)
                    items[item.topic, item.partition] = item
                if left < 0:
                    yield
            session = self._open(items, by_topic_id, elapsed_ms(), reader()) if may_open and items else None
            wanted_items = list(items.values())
            while session is None and left < 0 and items:  # a hundred thousand keys would otherwise be freed at once
                items.popitem()
                yield
            return session, wanted_items
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session_id} not found")
        if epoch != session.next_epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} expects epoch {session.next_epoch}, not {epoch}",
            )
        if by_topic_id != session.by_topic_id:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} mixes topic names and topic IDs"
            )
        session.next_epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_at_ms = now_ms = elapsed_ms()
        self._sessions[session_id] = self._sessions.pop(session_id)
        if request.topics or request.forgotten_topics_data:
            try:
                yield from self._update(session, request)
            finally:
                self._count(session)
            self._make_room(session, now_ms)
        if len(session.items) > A_PIECE:
            yield
        return session, list(session.items.values())

    def known_to(self, request: FetchRequest, *, by_topic_id: bool) -> list[tuple[TopicKey, int]] | None:
        """Return the partitions of the session that a request continues, as they were before; None if it continues no
        session."""
        session = self._sessions.get(request.session_id)
        if session is None or request.session_epoch != session.next_epoch or session.by_topic_id != by_topic_id:
            return None
        return list(session.items)

    def retract(self, request: FetchRequest, partitions: Iterable[tuple[TopicKey, int]]) -> None:
        """Note that the answer to a request had an error for these partitions instead of their data: their next success must be
        in the answer."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return
        for partition in partitions:
            if (item := session.items.get(partition)) is not None:
                item.told_high_watermark = -1

    def _open(
        self, items: dict[tuple[TopicKey, int], FetchItem], by_topic_id: bool, elapsed_ms: int, reader: Reader
    ) -> FetchSession | None:
        if len(items) > self._max_partitions:
            return None  # The client continues with full fetches.
        while len(self._sessions) >= self._max_sessions or self.partition_count + len(items) > self._max_partitions:
            if not self._evict(elapsed_ms):
                return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        session = FetchSession(session_id, by_topic_id, items, 1, elapsed_ms, reader)
        self._sessions[session_id] = session
        self._count(session)
        return session

    def _evict(self, elapsed_ms: int) -> bool:
        """Forget the session that was used least recently, if that is long ago. Return whether a session was forgotten."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or elapsed_ms - oldest.last_used_at_ms <= EVICTION_AGE_MS:
            return False
        self._drop(oldest.session_id)
        return True

    def _make_room(self, session: FetchSession, elapsed_ms: int) -> None:
        """Forget sessions until the limit of partitions is met; last, the session of this request. Its client gets the error of
        an evicted session, and continues with a full fetch."""
        if self._sessions.get(session.session_id) is not session:
            return
        while self.partition_count > self._max_partitions:
            if not self._evict(elapsed_ms):
                self._drop(session.session_id)
                raise KafkaError(
                    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                    f"too many partitions in fetch session {session.session_id} ({len(session.items)}, limit"
                    f" {self._max_partitions} in all sessions)",
                )

    def _update(self, session: FetchSession, request: FetchRequest) -> Steps[None]:
        left = A_PIECE
        for asked in request.topics:
            if len(asked.topic) > NAME_CHARS_MAX:
                self._drop(session.session_id)
                raise KafkaError(
                    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                    f"topic name too long in fetch session {session.session_id} ({len(asked.topic)} characters)",
                )
            left -= A_TOPIC + len(asked.partitions)
            if left < 0:
                yield
            for wanted in asked.partitions:
                if left < 0:
                    yield
                item = item_of(asked, wanted, session.by_topic_id)
                key = (item.topic, item.partition)
                known = session.items.get(key)
                if known is None:
                    session.items[key] = item
                else:
                    known.fetch_offset = item.fetch_offset
                    known.max_bytes = item.max_bytes
                    known.current_leader_epoch = item.current_leader_epoch
                    known.last_fetched_epoch = item.last_fetched_epoch
        for forgotten in request.forgotten_topics_data:
            topic: TopicKey = forgotten.topic_id if session.by_topic_id else forgotten.topic
            left -= A_TOPIC + len(forgotten.partitions)
            if left < 0:
                yield
            for partition in forgotten.partitions:
                if left < 0:
                    yield
                session.items.pop((topic, partition), None)

    @staticmethod
    def move_to_end(session: FetchSession, item: FetchItem) -> None:
        """Move a partition whose records were sent to the end, so that the others are served next."""
        key = (item.topic, item.partition)
        if key in session.items:
            session.items[key] = session.items.pop(key)


def item_of(topic: FetchTopic, wanted: FetchPartition, by_topic_id: bool) -> FetchItem:
    """Return the item for a partition of `topic` in a request."""
    return FetchItem(
        topic.topic_id if by_topic_id else topic.topic,
        wanted.partition,
        wanted.fetch_offset,
        wanted.partition_max_bytes,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
    )
