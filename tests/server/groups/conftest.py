"""Fixtures of all group tests: a heartbeat that is found to change nothing is also carried out in full, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.groups.consumer.protocol import ConsumerProtocol
from ottla.server.groups.coordinator import GroupCoordinator, QuietMember
from ottla.server.groups.share.protocol import ShareProtocol
from ottla.server.groups.streams.protocol import StreamsProtocol


@pytest.fixture(autouse=True)
def unchanged_heartbeats(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the kinds of groups that received such a heartbeat."""
    found: list[str] = []

    def compare(kind: type[Any]) -> None:
        unchanged = kind.unchanged

        def compared(self: Any, shard: Any, request: Any, caller: Any) -> Any:
            answer = unchanged(self, shard, request, caller)
            if answer is not None:
                found.append(kind.__name__)
                append, group = self._store.append, shard.groups[request.group_id]
                before = dict(vars(group))
                self._store.append = None  # Nothing may be written.
                try:
                    assert self.heartbeat(shard, request, caller, 0) == answer
                finally:
                    self._store.append = append
                assert vars(group) == before
            return answer

        monkeypatch.setattr(kind, "unchanged", compared)

    for kind in (ConsumerProtocol, ShareProtocol, StreamsProtocol):
        compare(kind)
    yield found


@pytest.fixture(autouse=True)
def repeated_heartbeats(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the ids of classic members whose heartbeats needed no look-ups: the same one had succeeded in the same group."""
    found: list[str] = []
    known: dict[tuple[Any, ...], QuietMember | None] = {}
    heartbeat = GroupCoordinator.heartbeat

    def compared(self: GroupCoordinator, shard: Any, group_id: str, member_id: str, *others: Any) -> ErrorCode:
        quiet = known.pop(key := (self, group_id, member_id, *others), None)
        is_kept = quiet is not None and self.keep_alive(quiet, member_id)
        answer: ErrorCode | None = None
        try:
            answer = heartbeat(self, shard, group_id, member_id, *others)
        except KafkaError as error:
            answer = error.code
            raise
        finally:
            assert not is_kept or answer is ErrorCode.NONE
        if is_kept:
            found.append(member_id)
        known[key] = None if answer else self.quiet(group_id, member_id)
        return answer

    monkeypatch.setattr(GroupCoordinator, "heartbeat", compared)
    yield found
