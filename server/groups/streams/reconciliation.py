"""Reconciliation of a member's tasks with its target: one step at each heartbeat.

First the member gives up the tasks that are not in its target, and confirms that by naming the tasks that it still has. Only
then it enters the target's epoch, and gets the tasks that are free. An active task is free if no process has it as active. Any
task is free only if no other member of the member's process has it: their state directory holds a task only once.

A member changes the role of its own task without giving it up, so its state stays open. It keeps a standby or warm-up task until
the task is active with it. A task that it must give up as active becomes its standby at once.

    STABLE ──► UNREVOKED_TASKS ──► UNRELEASED_TASKS ──► STABLE
       └────────────────────────────────▲─────────────────▲
          nothing to give up            nothing to wait for ──┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from .group import StreamsGroup, Task
from .member import Epochs, Owned, Places, StreamsMember, StreamsMemberState, StreamsTasks

_NOBODY: frozenset[int] = frozenset()


def next_step(
    group: StreamsGroup, member: StreamsMember, epoch: int, target: StreamsTasks, claim: StreamsTasks | None
) -> StreamsMember:
    """Return the member after one step; it may be unchanged.

    Args:
        group: The group before the step.
        epoch: Epoch of the target assignment.
        target: The member's target.
        claim: Tasks that the member claims to have; None if the request does not contain them.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH if this coordinator does not know the member's state, and the member still has tasks.
    """
    match member.state:
        case StreamsMemberState.STABLE if member.epoch != epoch:
            return _advance(group, member, member.epoch, epoch, target, claim)
        case StreamsMemberState.UNREVOKED_TASKS if claim is not None and not member.revoking.shares_any(claim):
            return _advance(group, member, member.epoch + 1, epoch, target, claim)
        case StreamsMemberState.UNRELEASED_TASKS:
            return _advance(group, member, member.epoch, epoch, target, claim)
        case StreamsMemberState.UNKNOWN:
            if claim is None or any(claim):
                message = (
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)
            return _advance(group, member, epoch, epoch, target, claim)
    return member


def _advance(
    group: StreamsGroup,
    member: StreamsMember,
    own_epoch: int,
    epoch: int,
    target: StreamsTasks,
    claim: StreamsTasks | None,
) -> StreamsMember:
    """Advance the member towards its target; its epoch is `own_epoch` as long as it has tasks to give up."""
    has = member.assigned
    active, active_left = _split_active(has.active, target.active)
    standby, standby_left = _split(has.standby, target.standby)
    warmup, warmup_left = _split(has.warmup, target.warmup)
    free, lacks = _free(group, member, Owned(active, standby, warmup), target)
    for key, partitions in has.active.items():
        _move(free.standby, standby, key, partitions)
    for key, replicas in has.standby.items():
        _remove(standby_left, key, _move(free.warmup, warmup, key, replicas))
    for key, replicas in has.warmup.items():
        _remove(warmup_left, key, _move(free.standby, standby, key, replicas))
    promoted = []
    for role, places, left in ((has.standby, standby, standby_left), (has.warmup, warmup, warmup_left)):
        for key, replicas in role.items():
            going = replicas & target.active.get(key, _NOBODY)
            _remove(left, key, going)
            promoted.append((places, key, going))
    revoking = Owned(active_left, standby_left, warmup_left)
    must_revoke = any(revoking) and (claim is None or revoking.shares_any(claim))
    for places, key, going in promoted:
        _add(places, key, going if must_revoke else going - free.active.get(key, _NOBODY))
    if must_revoke:
        return _enter(member, own_epoch, StreamsMemberState.UNREVOKED_TASKS, Owned(active, standby, warmup), revoking)
    for key, gets in free.active.items():
        active[key] = {**active.get(key, {}), **dict.fromkeys(gets, epoch)}
    for places, granted in ((standby, free.standby), (warmup, free.warmup)):
        for key, gets in granted.items():
            _add(places, key, gets)
    state = StreamsMemberState.UNRELEASED_TASKS if lacks else StreamsMemberState.STABLE
    return _enter(member, epoch, state, Owned(active, standby, warmup), Owned())


def _enter(
    member: StreamsMember, epoch: int, state: StreamsMemberState, assigned: Owned, revoking: Owned
) -> StreamsMember:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)


def _split_active(has: Epochs, target: Places) -> tuple[dict[str, Mapping[int, int]], dict[str, Mapping[int, int]]]:
    """Return the active tasks to keep, and those to give up."""
    kept: dict[str, Mapping[int, int]] = {}
    left: dict[str, Mapping[int, int]] = {}
    for key, epochs in has.items():
        wanted = target.get(key, _NOBODY)
        if stays := {partition: since for partition, since in epochs.items() if partition in wanted}:
            kept[key] = stays
        if goes := {partition: since for partition, since in epochs.items() if partition not in wanted}:
            left[key] = goes
    return kept, left


def _split(has: Places, target: Places) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """Return the tasks to keep, and those to give up."""
    kept: dict[str, frozenset[int]] = {}
    left: dict[str, frozenset[int]] = {}
    for key, partitions in has.items():
        wanted = target.get(key, _NOBODY)
        if stays := partitions & wanted:
            kept[key] = stays
        if goes := partitions - wanted:
            left[key] = goes
    return kept, left


class _Free(NamedTuple):
    """Tasks of the target that the member lacks and may have now."""

    active: dict[str, frozenset[int]]
    standby: dict[str, frozenset[int]]
    warmup: dict[str, frozenset[int]]


def _free(group: StreamsGroup, member: StreamsMember, kept: Owned, target: StreamsTasks) -> tuple[_Free, bool]:
    """Return the free tasks of the target that the member does not have in their role, and whether there are any that are not
    free."""
    found, lacks = _Free({}, {}, {}), False
    roles = zip(found, kept, target, (_taken_active, _taken_standby, _taken_warmup), strict=True)
    for gets, mine, wanted, taken_of in roles:
        for key, partitions in wanted.items():
            missing = partitions.difference(mine.get(key, ()))
            if not missing:
                continue
            taken = taken_of(group, member, key, missing)
            lacks = lacks or bool(taken)
            if free := missing - taken:
                gets[key] = free
    return found, lacks


def _taken_active(group: StreamsGroup, member: StreamsMember, key: str, wanted: frozenset[int]) -> set[int]:
    """Return those of a subtopology's partitions that the member cannot have as active tasks yet."""
    owners, assigned = group.active_processes, member.assigned
    active = {one for one in wanted if (key, one) in owners}
    standby = _held(group.standby_processes, member.process_id, key, wanted).difference(assigned.standby.get(key, ()))
    warmup = _held(group.warmup_processes, member.process_id, key, wanted).difference(assigned.warmup.get(key, ()))
    return active | standby | warmup


def _taken_standby(group: StreamsGroup, member: StreamsMember, key: str, wanted: frozenset[int]) -> set[int]:
    """`_taken_active` for standby tasks."""
    owners, process_id, assigned = group.active_processes, member.process_id, member.assigned
    active = {one for one in wanted if owners.get((key, one)) == process_id}.difference(assigned.active.get(key, ()))
    warmup = _held(group.warmup_processes, process_id, key, wanted).difference(assigned.warmup.get(key, ()))
    return active | _held(group.standby_processes, process_id, key, wanted) | warmup


def _taken_warmup(group: StreamsGroup, member: StreamsMember, key: str, wanted: frozenset[int]) -> set[int]:
    """`_taken_active` for warm-up tasks."""
    owners, process_id = group.active_processes, member.process_id
    active = {one for one in wanted if owners.get((key, one)) == process_id}
    standby = _held(group.standby_processes, process_id, key, wanted).difference(member.assigned.standby.get(key, ()))
    return active | standby | _held(group.warmup_processes, process_id, key, wanted)


def _held(processes: Mapping[Task, Counter[str]], process_id: str, key: str, wanted: frozenset[int]) -> set[int]:
    """Return those of a subtopology's partitions that the process has in this role, or must give up."""
    if not processes:
        return set()
    return {one for one in wanted if process_id in processes.get((key, one), ())}


def _move(
    free: dict[str, frozenset[int]], role: dict[str, frozenset[int]], key: str, partitions: Iterable[int]
) -> frozenset[int]:
    """Give the member those of `partitions` that are free in a role, and return them."""
    moved = free.get(key, _NOBODY).intersection(partitions)
    _remove(free, key, moved)
    _add(role, key, moved)
    return moved


def _add(places: dict[str, frozenset[int]], key: str, partitions: frozenset[int]) -> None:
    if partitions:
        places[key] = places.get(key, _NOBODY) | partitions


def _remove(places: dict[str, frozenset[int]], key: str, partitions: frozenset[int]) -> None:
    if not partitions or key not in places:
        return
    if left := places[key] - partitions:
        places[key] = left
    else:
        del places[key]
