"""Fixtures of all group tests: a heartbeat that is found to change nothing is also carried out in full, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.server.groups.consumer.protocol import ConsumerProtocol
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
