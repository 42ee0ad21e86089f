"""Reconciliation of a member's tasks with its target: one step at each heartbeat.

First the member gives up the tasks that are not in its target, and confirms that by naming the tasks that it still has. Only
then it enters the target's epoch, and gets the tasks that are free. An active task is free if no process has it as active. Any
task is free only if the member's own process has it in no other role: its state directory holds a task only once.

    STABLE ──► UNREVOKED_TASKS ──► UNRELEASED_TASKS ──► STABLE
       └────────────────────────────────▲─────────────────▲
          nothing to give up            nothing to wait for ──┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from .group import StreamsGroup
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
    kept = has = member.assigned
    if any(has):
        active, active_left = _split_active(has.active, target.active)
        standby, standby_left = _split(has.standby, target.standby)
        warmup, warmup_left = _split(has.warmup, target.warmup)
        kept, revoking = Owned(active, standby, warmup), Owned(active_left, standby_left, warmup_left)
        if any(revoking) and (claim is None or revoking.shares_any(claim)):
            return _enter(member, own_epoch, StreamsMemberState.UNREVOKED_TASKS, kept, revoking)
    assigned, must_wait = _granted(group, member.process_id, epoch, kept, target)
    return _enter(
        member,
        epoch,
        StreamsMemberState.UNRELEASED_TASKS if must_wait else StreamsMemberState.STABLE,
        assigned,
        Owned(),
    )


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


def _granted(group: StreamsGroup, process_id: str, epoch: int, kept: Owned, target: StreamsTasks) -> tuple[Owned, bool]:
    """Return the kept tasks with the free tasks of the target, active ones since `epoch`, and whether any task is missing."""
    roles: tuple[dict[str, Any], ...] = ({**kept.active}, {**kept.standby}, {**kept.warmup})
    lacks = False
    for mine, wanted, as_active in zip(roles, target, (True, False, False), strict=True):
        for key, partitions in wanted.items():
            missing = partitions.difference(mine.get(key, ()))
            gets = [one for one in missing if not group.is_used_by(process_id, (key, one), as_active=as_active)]
            lacks = lacks or len(gets) < len(missing)
            if gets and as_active:
                mine[key] = {**mine.get(key, {}), **dict.fromkeys(gets, epoch)}
            elif gets:
                mine[key] = mine.get(key, _NOBODY).union(gets)
    return Owned(*roles), lacks
