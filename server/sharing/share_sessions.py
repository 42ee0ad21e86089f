"""Share sessions: which partitions a member of a share group fetches, so that its requests need not name them again (KIP-932).

A session has an epoch that grows with each request, so that none is taken twice or left out. It belongs to the connection that began it:
when that goes, the member has left, and what it has acquired is to be released by whoever is told so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.jobs import AT_ONCE, Steps

FULL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1
PLACES_A_SESSION = 50
"""All sessions together have so many partitions for each that there may be: a request may name a hundred thousand."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class SharedPartition(NamedTuple):
    """A partition."""

    topic_id: bytes
    partition: int


class ShareSession:
    """
    Attributes:
        epoch: Which the next request has to bring.
        places: Every partition in it, in order -> whether the next answer has to tell of it even if there is nothing.
    """

    __slots__ = ("connection", "epoch", "key", "places")

    def __init__(self, key: SessionKey, places: dict[SharedPartition, bool], connection: object) -> None:
        self.key = key
        self.epoch = 1
        self.places = places
        self.connection = connection

    def must_tell(self, place: SharedPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer has to have a row for a partition; it is taken to have it. An error is followed by another row."""
        is_due = self.places.get(place, True)
        if place in self.places:
            self.places[place] = has_error
        return is_due or has_records or has_error

    def grow(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class ShareSessions:
    """Those of one node, of which there are so many at most (`group.share.max.share.sessions`)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places_most = most * PLACES_A_SESSION
        self._counted: dict[SessionKey, int] = {}
        self.place_count = 0
        """Partitions of all sessions together."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connections: dict[object, set[SessionKey]] = {}
        self._members: dict[str, int] = {}

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
        """The session that a fetch belongs to, as it is with it; nothing has changed before the last piece. With the final epoch it is
        left for `close`.

        Raises:
            KafkaError: INVALID_REQUEST (who begins anew has nothing to acknowledge), SHARE_SESSION_LIMIT_REACHED (of sessions, or of
                partitions in all of them), SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH. One that is begun anew in vain is
                gone all the same; one that has become too large stays as it was.
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
        session = self._found(key)
        if epoch == FINAL_EPOCH:
            return session
        self._check(session, epoch)
        made = yield from _with(session.places, places, forgotten, is_due=True)
        if self._found(key) is not session:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "the share session was replaced by a new one")
        self._check(session, epoch)  # With each change it has another one.
        if len(made) > len(session.places):
            self._check_room(len(made) - len(session.places))
        session.grow()
        session.places = made
        self._count(session)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session that acknowledgements without a fetch belong to; with the final epoch it is left for `close`.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == FULL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "acknowledgements cannot start a share session")
        session = self._found(key)
        if epoch != FINAL_EPOCH:
            self._check(session, epoch)
            session.grow()
        return session

    def close(self, key: SessionKey) -> ShareSession:
        """End a session: what its member has in these partitions is to be released.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._found(key)
        self._forget(key)
        return session

    def has(self, session: ShareSession) -> bool:
        """Whether the session stands: it did not end, and its member began no other one."""
        return self._sessions.get(session.key) is session

    def disconnected(self, connection: object) -> list[ShareSession]:
        """End the sessions of a connection that is gone."""
        return [self.close(key) for key in sorted(self._of_connections.get(connection, ()))]

    def clear(self) -> None:
        """There are none any more."""
        for table in (self._sessions, self._counted, self._of_connections, self._members):
            table.clear()
        self.place_count = 0

    def members(self, group_id: str) -> int:
        """How many have a session; share partitions of a group without any need not be kept."""
        return self._members.get(group_id, 0)

    def _begin(self, key: SessionKey, places: dict[SharedPartition, bool], connection: object) -> ShareSession:
        session = self._sessions[key] = ShareSession(key, places, connection)
        self._of_connections.setdefault(connection, set()).add(key)
        self._members[key.group_id] = self.members(key.group_id) + 1
        self._count(session)
        return session

    def _found(self, key: SessionKey) -> ShareSession:
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
        """It has another number of partitions, or is new."""
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


def _with(
    before: dict[SharedPartition, bool],
    more: Iterable[SharedPartition],
    less: Iterable[SharedPartition],
    *,
    is_due: bool,
) -> Steps[dict[SharedPartition, bool]]:
    """`ShareSession.places` with others; of new ones an answer has to tell or not."""
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
