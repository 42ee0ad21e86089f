"""Invariants of a streams group, whatever happens to it: derived from its members' answers, and from its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from ottla.server.groups.streams.group import StreamsGroup
from ottla.server.groups.streams.member import Owned, StreamsMemberState, StreamsTasks
from ottla.server.groups.streams.member import StreamsMember as HeldMember
from support.groups.streams_groups import REBALANCE_MS, SESSION_MS, StreamsMember

Task = tuple[str, int]
RoleTask = tuple[int, str, int]
"""Role (0 active, 1 standby), subtopology id, partition."""


class StreamsModel:
    """A model of a streams group, and its checks.

    Attributes:
        told: Member id -> the epoch in the last answer.
        heard_ms: Member id -> when its session began.
        gives_up_ms: Member id -> when it was asked to give up tasks, if it must.
    """

    def __init__(self, standbys: int) -> None:
        self._standbys = standbys
        self.told: dict[str, int] = {}
        self.heard_ms: dict[str, int] = {}
        self.gives_up_ms: dict[str, int] = {}
        self.loaded_ms = 0
        self._epochs = (0, 0)

    # What happens

    def forget(self, member_id: str) -> None:
        """Note that an answer removed the member from the group."""
        self.told.pop(member_id, None)
        self.unheard(member_id)

    def unheard(self, member_id: str) -> None:
        """Note that the outcome of the member's last heartbeat is unknown."""
        self.heard_ms.pop(member_id, None)
        self.gives_up_ms.pop(member_id, None)

    def restart_sessions(self, now_ms: int) -> None:
        self.loaded_ms = now_ms
        self.heard_ms = dict.fromkeys(self.heard_ms, now_ms)
        self.gives_up_ms = dict.fromkeys(self.gives_up_ms, now_ms)

    def known(self, group: StreamsGroup | None, member_id: str) -> HeldMember | None:
        return None if group is None else group.members.get(member_id)

    def answered(
        self,
        group: StreamsGroup,
        before: HeldMember | None,
        request: StreamsGroupHeartbeatRequest,
        answer: StreamsGroupHeartbeatResponse,
        now_ms: int,
    ) -> None:
        """Check that an answer agrees with the table, and continues the answer before."""
        name = request.member_id
        member = group.members[name]
        assert answer.member_epoch == member.epoch
        assert answer.member_epoch >= self.told.get(name, 0), f"{name} was told {self.told[name]}, and now {answer}"
        claim = _role_tasks(request.active_tasks, request.standby_tasks)
        named = answer.active_tasks is not None
        told = _role_tasks(answer.active_tasks, answer.standby_tasks) if named else claim
        assigned = _owned(member.assigned)
        is_told_later = group.assignment_epoch < group.epoch and told < assigned
        assert told == assigned or is_told_later, f"{name} is to think that it has {told}, and has {assigned}"
        if request.member_epoch:
            # A standby that becomes active is not given up before.
            left = {(role, *task) for role, *task in claim - assigned if not role or (0, *task) not in assigned}
            assert left <= _owned(member.revoking), f"{name} has {left}, and the coordinator does not know"
            if left:
                assert member.state is StreamsMemberState.UNREVOKED_TASKS
                assert before is not None
                assert member.epoch <= before.epoch + 1, f"{name} went on with {left}"
        if member.state is not StreamsMemberState.UNREVOKED_TASKS:
            self.gives_up_ms.pop(name, None)
        elif before is None or (before.epoch, before.revoking) != (member.epoch, member.revoking):
            self.gives_up_ms[name] = now_ms
        else:  # The answer that asked for it was lost: the power was lost during that heartbeat.
            self.gives_up_ms.setdefault(name, self.loaded_ms)
        self.told[name] = answer.member_epoch
        self.heard_ms[name] = now_ms

    # What is compared

    def check(
        self, group: StreamsGroup | None, members: Iterable[StreamsMember], now_ms: int, *, is_exact: bool
    ) -> None:
        """Check a group. `is_exact`: members that are due for removal have been removed."""
        if group is None:
            return
        before, self._epochs = self._epochs, (group.epoch, group.assignment_epoch)
        assert all(now >= then for now, then in zip(self._epochs, before, strict=True)), (before, self._epochs)
        self._check_members(members, group)
        self._check_table(group)
        self._check_targets(group)
        self._check_sessions(group, now_ms, is_exact=is_exact)

    def _check_members(self, members: Iterable[StreamsMember], group: StreamsGroup) -> None:
        """Check what the members believe they own."""
        taken: dict[Task, str] = {}
        of_process: dict[tuple[str, str, int], str] = {}
        for member in members:
            if member.member_id not in group.members or not member.epoch:
                continue
            for role, key, index in member.has:
                owners = {of_process.setdefault((member.process_id, key, index), member.member_id)}
                if role == 0:
                    owners.add(taken.setdefault((key, index), member.member_id))
                assert owners == {member.member_id}, f"{key}-{index}: {owners} and {member.member_id}"

    def _check_table(self, group: StreamsGroup) -> None:
        assert group.assignment_epoch <= group.epoch
        active: dict[Task, str] = {}
        standby: dict[Task, Counter[str]] = {}
        for name, member in group.members.items():
            assert member.previous_epoch <= member.epoch <= group.epoch, member
            assert member.epoch >= self.told.get(name, 0), f"{name} was told {self.told[name]}: {member}"
            assert any(member.revoking) != (member.state is not StreamsMemberState.UNREVOKED_TASKS), member
            for owned in (member.assigned, member.revoking):
                assert not owned.warmup
                for role, key, index in _owned(owned):
                    if role == 0:
                        other = active.setdefault((key, index), name)
                        assert other == name, f"{key}-{index} is owned by {other} and {name}"
                    else:
                        standby.setdefault((key, index), Counter())[member.process_id] += 1
        assert group.active_processes == {task: group.members[name].process_id for task, name in active.items()}
        assert group.standby_processes == standby
        for task, processes in standby.items():
            assert max(processes.values()) == 1, f"{task} is in one process twice"
            process = group.active_processes.get(task)
            if process in processes:  # A member has the task as a standby already that it still gives up as active.
                members = [one for one in group.members.values() if one.process_id == process]
                assert any((1, *task) in _owned(one.assigned) and (0, *task) in _owned(one.revoking) for one in members)

    def _check_targets(self, group: StreamsGroup) -> None:
        assert group.targets.keys() <= group.members.keys()
        counts = Counter(place for one in group.targets.values() for place in _planned(one))
        for (role, key, index), count in counts.items():
            most = self._standbys if role else 1
            assert count <= most, f"{count} are to have {key}-{index}, {most} may"

    def _check_sessions(self, group: StreamsGroup, now_ms: int, *, is_exact: bool) -> None:
        for name, heard_ms in self.heard_ms.items():
            silent_ms = now_ms - heard_ms
            late_ms = now_ms - self.gives_up_ms.get(name, now_ms)
            if silent_ms < SESSION_MS and late_ms < REBALANCE_MS:
                assert name in group.members, f"{name} is gone after {silent_ms} ms"
            elif is_exact:
                assert name not in group.members, f"{name} is still there after {silent_ms} ms, {late_ms} ms late"
        self.heard_ms = {name: heard_ms for name, heard_ms in self.heard_ms.items() if name in group.members}

    # The end

    def planned(self, group: StreamsGroup, member_id: str) -> set[RoleTask]:
        return _planned(group.targets[member_id])

    def actives(self, members: Iterable[StreamsMember]) -> dict[str, set[Task]]:
        return {one.member_id: {(key, index) for role, key, index in one.has if not role} for one in members}

    def check_all_assigned(self, members: Iterable[StreamsMember], tasks: set[Task]) -> None:
        counts = Counter(task for one in self.actives(members).values() for task in one)
        assert counts == Counter(tasks), f"{counts} of {tasks}"

    def check_kept(self, before: Mapping[str, set[Task]], after: Mapping[str, set[Task]]) -> None:
        """Check that after one member has left, every other member keeps what it had."""
        for name, has in after.items():
            assert before[name] <= has, f"{name} had {before[name]}, and has {has}"


def _role_tasks(active: Iterable[TaskIds] | None, standby: Iterable[TaskIds] | None) -> set[RoleTask]:
    rows = enumerate((active or (), standby or ()))
    return {(role, one.subtopology_id, index) for role, ones in rows for one in ones for index in one.partitions}


def _owned(owned: Owned) -> set[RoleTask]:
    return _planned(owned.tasks)


def _planned(tasks: StreamsTasks) -> set[RoleTask]:
    rows = enumerate((tasks.active, tasks.standby))
    return {(role, key, index) for role, places in rows for key, one in places.items() for index in one}
