"""Share sessions (KIP-932): they store the partitions that a member of a share group fetches, so that its requests need not
repeat them.

A session has an epoch that grows with each request, so that no request is handled twice or lost. It belongs to the connection
that created it. When that disconnects, the member has left, and the caller must release its acquired records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.jobs import AT_ONCE, Steps

FULL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1
PLACES_A_SESSION = 50
"""Average number of partitions per session, which limits the partitions of all sessions together: one request may name a
hundred thousand."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class SharedPartition(NamedTuple):
    """Key of a partition in a share session."""

    topic_id: bytes
    partition: int


class ShareSession:
    """
    Attributes:
        epoch: Epoch that the next request must have.
        places: Partition of the session, in order -> whether the next answer must contain it even without records.
    """

    __slots__ = ("connection", "epoch", "key", "places")

    def __init__(self, key: SessionKey, places: dict[SharedPartition, bool], connection: object) -> None:
        self.key = key
        self.epoch = 1
        self.places = places
        self.connection = connection

    def needs_row(self, place: SharedPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer must have a row for a partition; the answer is assumed to have it. A row with an error is followed
        by another row."""
        is_due = self.places.get(place, True)
        if place in self.places:
            self.places[place] = has_error
        return is_due or has_records or has_error

    def grow(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class ShareSessions:
    """Share sessions of one node, up to `group.share.max.share.sessions`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places_most = most * PLACES_A_SESSION
        self._counted: dict[SessionKey, int] = {}
        self.place_count = 0
        """Number of partitions of all sessions together."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connections: dict[object, set[SessionKey]] = {}
        self._members: dict[str, int] = {}
        self._waiting: dict[Callable[[], object], None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        connection: object,
        *,
        places: Iterable[SharedPartition],
        forgotten: Iterable[SharedPartition] = (),
        has_acknowledgements: bool,
    ) -> Steps[ShareSession]:
        """Return the session of a fetch, updated by it. Nothing is changed before the last piece. With the final epoch the
        caller must call `close`.

        Raises:
            KafkaError: INVALID_REQUEST (a new session has nothing to acknowledge), SHARE_SESSION_LIMIT_REACHED (of sessions, or
                of partitions in all of them), SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH. If a session cannot be
                created again, the old one is still ended. A session that would become too large stays unchanged.
        """
        if epoch == FULL_EPOCH:
            if has_acknowledgements:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a new share session must not contain acknowledgements")
            made = yield from _with({}, places, (), is_due=False)
            self._forget(key)
            if len(self._sessions) >= self._most:
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"too many share sessions (limit {self._most})")
            self._check_room(len(made))
            return self._begin(key, made, connection)
        session = self._require_session(key)
        if epoch == FINAL_EPOCH:
            return session
        self._check(session, epoch)
        made = yield from _with(session.places, places, forgotten, is_due=True)
        if self._require_session(key) is not session:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "the share session was replaced by a new one")
        self._check(session, epoch)  # Each change gives the session another epoch.
        if len(made) > len(session.places):
            self._check_room(len(made) - len(session.places))
        session.grow()
        session.places = made
        self._count(session)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of acknowledgements without a fetch. With the final epoch the caller must call `close`.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == FULL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "acknowledgements cannot start a share session")
        session = self._require_session(key)
        if epoch != FINAL_EPOCH:
            self._check(session, epoch)
            session.grow()
        return session

    def close(self, key: SessionKey) -> ShareSession:
        """End a session. The caller must release its member's records in these partitions.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._require_session(key)
        self._forget(key)
        return session

    @contextmanager
    def waiting(self, wake: Callable[[], object]) -> Iterator[None]:
        """Have `wake` called once if a session ends in this context; each end wakes the one that has waited longest."""
        self._waiting[wake] = None
        try:
            yield
        finally:
            self._waiting.pop(wake, None)

    def has(self, session: ShareSession) -> bool:
        """Whether the session is in use: it did not end, and its member did not create another."""
        return self._sessions.get(session.key) is session

    def disconnected(self, connection: object) -> list[ShareSession]:
        """End the sessions of a connection that has disconnected."""
        return [self.close(key) for key in sorted(self._of_connections.get(connection, ()))]

    def clear(self) -> None:
        """End all sessions."""
        for table in (self._sessions, self._counted, self._of_connections, self._members):
            table.clear()
        self.place_count = 0

    def members(self, group_id: str) -> int:
        """Return the number of members with a session. Share partitions of a group without any need not be kept."""
        return self._members.get(group_id, 0)

    def _begin(self, key: SessionKey, places: dict[SharedPartition, bool], connection: object) -> ShareSession:
        session = self._sessions[key] = ShareSession(key, places, connection)
        self._of_connections.setdefault(connection, set()).add(key)
        self._members[key.group_id] = self.members(key.group_id) + 1
        self._count(session)
        return session

    def _require_session(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {key.member_id} has no share session")
        return session

    def _check(self, session: ShareSession, epoch: int) -> None:
        if epoch != session.epoch:
            message = f"share session epoch {epoch} does not match {session.epoch}"
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)

    def _check_room(self, more: int) -> None:
        if self.place_count + more > self._places_most:
            message = f"too many partitions in share sessions (limit {self._places_most})"
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, message)

    def _count(self, session: ShareSession) -> None:
        """Update the number of partitions of a session that is new or has changed."""
        self.place_count += len(session.places) - self._counted.get(session.key, 0)
        self._counted[session.key] = len(session.places)

    def _forget(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self.place_count -= self._counted.pop(key)
        keys = self._of_connections[session.connection]
        keys.discard(key)
        if not keys:
            del self._of_connections[session.connection]
        left = self._members[key.group_id] - 1
        if left:
            self._members[key.group_id] = left
        else:
            del self._members[key.group_id]
        wake = next(iter(self._waiting), None)
        if wake is not None:
            del self._waiting[wake]
            wake()


def _with(
    before: dict[SharedPartition, bool],
    more: Iterable[SharedPartition],
    less: Iterable[SharedPartition],
    *,
    is_due: bool,
) -> Steps[dict[SharedPartition, bool]]:
    """Return `ShareSession.places` with some added and some removed; `is_due` is the value of new ones."""
    made = before.copy()
    for at, place in enumerate(more, 1):
        made.setdefault(place, is_due)
        if not at % AT_ONCE:
            yield
    for at, place in enumerate(less, 1):
        made.pop(place, None)
        if not at % AT_ONCE:
            yield
    return made
