"""Share sessions: epochs, partitions that are added and removed, connections that break."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.jobs import AT_ONCE, to_the_end
from ottla.server.sharing.share_sessions import FINAL_EPOCH, SessionKey, SharedPartition, ShareSession, ShareSessions
from support.noted import each_case

KEY = SessionKey("g", "m")
ONE, TWO, THREE = (SharedPartition(bytes([number]) * 16, 0) for number in range(3))


def fetch(
    sessions: ShareSessions, epoch: int, *places: SharedPartition, key: SessionKey = KEY, **more: object
) -> ShareSession:
    said = {"forgotten": (), "has_acknowledgements": False, "connection": "c"} | more
    connection = said.pop("connection")
    return to_the_end(sessions.fetch(key, epoch, connection, places=places, **said))  # type: ignore[arg-type]


def test_a_session_starts_continues_and_ends() -> None:
    sessions = ShareSessions(10)
    assert list(fetch(sessions, 0, ONE, TWO).places) == [ONE, TWO]
    assert list(fetch(sessions, 1, THREE, forgotten=(ONE,)).places) == [TWO, THREE]
    assert sessions.acknowledge(KEY, 2).epoch == 3
    assert fetch(sessions, FINAL_EPOCH).epoch == 3, "it ends when what it brought is done"
    assert list(sessions.close(KEY).places) == [TWO, THREE]
    assert len(sessions) == sessions.members("g") == 0


def test_the_first_epoch_follows_the_last() -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0).epoch = 2**31 - 1
    assert fetch(sessions, 2**31 - 1).epoch == 1


REFUSED: dict[str, tuple[Callable[[ShareSessions], object], ErrorCode]] = {
    "to begin with acknowledgements": (
        lambda sessions: fetch(sessions, 0, has_acknowledgements=True),
        ErrorCode.INVALID_REQUEST,
    ),
    "an epoch again": (lambda sessions: fetch(sessions, 1), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    "an epoch too early": (lambda sessions: fetch(sessions, 3), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    "an epoch below": (lambda sessions: fetch(sessions, -2), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    "to acknowledge with the first epoch": (
        lambda sessions: sessions.acknowledge(KEY, 0),
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ),
    "to acknowledge with another epoch": (
        lambda sessions: sessions.acknowledge(KEY, 1),
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ),
    "a stranger": (
        lambda sessions: fetch(sessions, 1, key=SessionKey("g", "n")),
        ErrorCode.SHARE_SESSION_NOT_FOUND,
    ),
    "a stranger who goes": (
        lambda sessions: fetch(sessions, FINAL_EPOCH, key=SessionKey("g", "n")),
        ErrorCode.SHARE_SESSION_NOT_FOUND,
    ),
    "a stranger who acknowledges": (
        lambda sessions: sessions.acknowledge(SessionKey("h", "m"), FINAL_EPOCH),
        ErrorCode.SHARE_SESSION_NOT_FOUND,
    ),
    "one more than there may be": (
        lambda sessions: fetch(sessions, 0, key=SessionKey("g", "n")),
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ),
}


@each_case("name", REFUSED)
def test_a_refused_request_leaves_the_session_unchanged(name: str) -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, ONE)
    fetch(sessions, 1)
    ask, code = REFUSED[name]
    with pytest.raises(KafkaError) as refused:
        ask(sessions)
    assert refused.value.code is code
    assert fetch(sessions, 2).places == {ONE: False}


def test_a_restarted_session_takes_its_own_place() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, ONE)
    assert list(fetch(sessions, 0, TWO, connection="d").places) == [TWO]
    assert sessions.disconnected("c") == [], "the session is another connection's"
    assert sessions.members("g") == 1


def test_each_end_wakes_the_one_that_has_waited_longest() -> None:
    sessions, woken = ShareSessions(2), list[str]()
    first, second = SessionKey("g", "1"), SessionKey("g", "2")
    for key in first, second:
        fetch(sessions, 0, ONE, key=key)
    wakes = [partial(woken.append, name) for name in ("gave up", "a", "b")]
    with sessions.waiting(wakes[0]):
        pass
    with sessions.waiting(wakes[1]), sessions.waiting(wakes[2]):
        sessions.close(first)
        assert woken == ["a"]
        sessions.close(second)
        fetch(sessions, 0, ONE, key=first)
        sessions.close(first)
    assert woken == ["a", "b"]


def test_new_records_are_returned_once_and_an_error_twice() -> None:
    session = fetch(ShareSessions(1), 0, ONE)
    nothing = {"has_records": False, "has_error": False}
    assert not session.needs_row(ONE, **nothing)
    assert session.needs_row(ONE, has_records=True, has_error=False)
    assert session.needs_row(ONE, has_records=False, has_error=True)
    assert session.needs_row(ONE, **nothing) and not session.needs_row(ONE, **nothing)
    assert session.needs_row(TWO, **nothing), "it was asked for, and is not in the session"


def test_partitions_added_to_a_session_are_returned() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, ONE)
    session = fetch(sessions, 1, ONE, TWO)
    assert session.places == {ONE: False, TWO: True}


def test_a_broken_connection_ends_its_sessions() -> None:
    sessions = ShareSessions(9)
    for member, connection in (("a", 1), ("b", 1), ("c", 2)):
        fetch(sessions, 0, ONE, key=SessionKey("g", member), connection=connection)
    assert [session.key.member_id for session in sessions.disconnected(1)] == ["a", "b"]
    assert sessions.members("g") == 1 and sessions.disconnected(1) == []


@each_case("seed", range(30))
def test_removed_sessions_leave_no_entries(seed: int) -> None:
    rng = Random(seed)
    sessions = ShareSessions(4)
    there: dict[SessionKey, int] = {}
    for _ in range(200):
        key = SessionKey(rng.choice("gh"), rng.choice("abc"))
        connection = rng.randrange(3)
        match rng.randrange(4):
            case 0 | 1:
                there.pop(key, None)
                if len(there) < 4:
                    fetch(sessions, 0, key=key, connection=connection)
                    there[key] = connection
                else:
                    with pytest.raises(KafkaError):
                        fetch(sessions, 0, key=key, connection=connection)
            case 2 if key in there:
                sessions.close(key)
                del there[key]
            case _:
                gone = {session.key for session in sessions.disconnected(connection)}
                assert gone == {one for one, its in there.items() if its == connection}
                there = {one: its for one, its in there.items() if its != connection}
        assert len(sessions) == len(there)
        for group in "gh":
            assert sessions.members(group) == sum(one.group_id == group for one in there)
    assert sessions._of_connections.keys() == set(there.values())


def many(count: int) -> list[SharedPartition]:
    return [SharedPartition(bytes(16), index) for index in range(count)]


def test_thousands_of_partitions_change_in_pieces_and_atomically() -> None:
    sessions = ShareSessions(1_000)
    session, pieces = fetch(sessions, 0, TWO), 0
    more = sessions.fetch(KEY, 1, "c", places=many(3 * AT_ONCE), forgotten=many(AT_ONCE), has_acknowledgements=False)
    with pytest.raises(StopIteration) as end:
        while True:
            next(more)
            pieces += 1
            assert list(session.places) == [TWO] and session.epoch == 1 and sessions.place_count == 1
    assert end.value.value is session and pieces == 4
    assert list(session.places) == [TWO, *many(3 * AT_ONCE)[AT_ONCE:]]
    assert (session.epoch, sessions.place_count) == (2, 2 * AT_ONCE + 1)


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (lambda sessions: fetch(sessions, 1, THREE), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (lambda sessions: fetch(sessions, 0, THREE), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (lambda sessions: sessions.close(KEY), ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
    ids=["goes on", "begins anew", "ends"],
)
def test_the_slower_of_two_requests_with_one_epoch_changes_nothing(
    meanwhile: Callable[[ShareSessions], object], code: ErrorCode
) -> None:
    sessions = ShareSessions(1_000)
    fetch(sessions, 0, TWO)
    late = sessions.fetch(KEY, 1, "c", places=many(AT_ONCE), has_acknowledgements=False)
    next(late)
    meanwhile(sessions)
    count = sessions.place_count
    with pytest.raises(KafkaError) as error:
        next(late)
    assert error.value.code is code
    assert sessions.place_count == count <= 2
