"""Simulated consumers of one group: each does what a client library does, whenever the test lets it act.

They join, wait, sync and send heartbeats; the leader assigns the partitions in turn. A consumer knows only what the
answers contain, so `owned` is what a real consumer would believe.
"""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from support.groups.groups import Groups, Reply

SESSION_MS = 10_000
REBALANCE_MS = 30_000
PARTITIONS = range(60)


class Consumer:
    """One consumer; `instance` makes it a static member."""

    def __init__(self, name: str, instance: str | None = None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.is_fenced = False
        self._joining: Reply[JoinGroupResponse] | None = None
        self._syncing: Reply[SyncGroupResponse] | None = None

    def __repr__(self) -> str:
        return f"{self.name}({self.member_id} in {self.generation} owns {sorted(self.owned)})"

    @property
    def is_waiting(self) -> bool:
        """Return whether a request is outstanding, or its answer is not taken yet."""
        return self._joining is not None or self._syncing is not None

    def disconnected(self) -> None:
        """Note that the broker disconnected: outstanding answers are lost, so their requests are sent again."""
        if self.is_waiting:
            self._joining = self._syncing = None
            self.generation = -1

    def act(self, groups: Groups) -> None:
        """Take the answers that have arrived, and send the next request."""
        if self._joining is not None:
            if not self._joining.is_parked:
                answer, self._joining = self._joining.answer, None
                self._joined(groups, answer)
        elif self._syncing is not None:
            if not self._syncing.is_parked:
                answered, self._syncing = self._syncing.answer, None
                self._synced(groups, answered)
        elif self.generation < 0:
            self._join(groups)
        else:
            self._rejoin_after(groups, groups.heartbeat(self.member_id, self.generation, instance=self.instance))

    def leave(self, groups: Groups) -> None:
        if self.member_id:
            groups.leave((self.member_id, self.instance))

    def _join(self, groups: Groups) -> None:
        self.owned = frozenset()
        self.generation = -1
        try:
            self._joining = groups.join(
                member=self.member_id,
                instance=self.instance,
                client=self.name,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                version=9,
            )
        except KafkaError:
            self._joining = None

    def _joined(self, groups: Groups, answer: JoinGroupResponse) -> None:
        if answer.error_code:
            self.member_id = answer.member_id if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else self.member_id
            self._rejoin_after(groups, ErrorCode(answer.error_code))
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments = None
        if answer.leader == answer.member_id and not answer.skip_assignment:
            ids = sorted(member.member_id for member in answer.members)
            assignments = {one: bytes(PARTITIONS[number :: len(ids)]) for number, one in enumerate(ids)}
        self._syncing = groups.sync(self.member_id, self.generation, assignments, instance=self.instance)

    def _synced(self, groups: Groups, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._rejoin_after(groups, ErrorCode(answer.error_code))
        else:
            self.owned = frozenset(answer.assignment)

    def _rejoin_after(self, groups: Groups, error: ErrorCode) -> None:
        if not error:
            return
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
            self.owned = frozenset()
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id = "" if error == ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
        self._join(groups)
