"""One step of a member towards its target: a task that changes its role stays with the member (KIP-1071)."""

from __future__ import annotations

from dataclasses import replace

from ottla.server.groups.streams.group import StreamsGroup
from ottla.server.groups.streams.member import (
    NO_TASKS,
    NOTHING,
    Owned,
    StreamsMember,
    StreamsMemberState,
    StreamsTasks,
)
from ottla.server.groups.streams.reconciliation import next_step
from support.noted import each_case

TASK = {"0": frozenset({0})}
STABLE, UNREVOKED, UNRELEASED = (
    StreamsMemberState.STABLE,
    StreamsMemberState.UNREVOKED_TASKS,
    StreamsMemberState.UNRELEASED_TASKS,
)


def active(epoch: int) -> dict[str, dict[int, int]]:
    return {"0": {0: epoch}}


def member(has: Owned = NOTHING, member_id: str = "m", process: str = "p") -> StreamsMember:
    return StreamsMember(member_id, epoch=1, previous_epoch=1, process_id=process, assigned=has)


def step(
    has: Owned, target: StreamsTasks, *others: StreamsMember, claim: StreamsTasks | None = None
) -> tuple[StreamsMemberState, Owned, Owned]:
    """Return state, tasks and tasks to give up of a member after one step to epoch 2, in a group with these others."""
    group, before = StreamsGroup("g", 0), member(has)
    for one in (before, *others):
        group.put(one)
    after = next_step(group, before, 2, target, claim)
    return after.state, after.assigned, after.revoking


STANDBY, WARMUP, ACTIVE = Owned(standby=TASK), Owned(warmup=TASK), Owned(active=active(1))


@each_case(
    "has, target, state, gets, gives_up",
    [
        (STANDBY, StreamsTasks(active=TASK), STABLE, Owned(active=active(2)), NOTHING),
        (WARMUP, StreamsTasks(active=TASK), STABLE, Owned(active=active(2)), NOTHING),
        (STANDBY, StreamsTasks(warmup=TASK), STABLE, WARMUP, NOTHING),
        (WARMUP, StreamsTasks(standby=TASK), STABLE, STANDBY, NOTHING),
        (ACTIVE, StreamsTasks(standby=TASK), UNREVOKED, STANDBY, ACTIVE),
        (ACTIVE, StreamsTasks(warmup=TASK), UNREVOKED, NOTHING, ACTIVE),
        (STANDBY, NO_TASKS, UNREVOKED, NOTHING, STANDBY),
        (WARMUP, NO_TASKS, UNREVOKED, NOTHING, WARMUP),
    ],
)
def test_a_member_changes_the_role_of_its_own_task(
    has: Owned, target: StreamsTasks, state: StreamsMemberState, gets: Owned, gives_up: Owned
) -> None:
    assert step(has, target) == (state, gets, gives_up)


@each_case("has", [STANDBY, WARMUP])
def test_a_replica_stays_until_the_active_task_is_free(has: Owned) -> None:
    owner = member(ACTIVE, "other", "q")
    assert step(has, StreamsTasks(active=TASK), owner) == (UNRELEASED, has, NOTHING)


def test_a_replica_stays_while_the_member_gives_up_other_tasks() -> None:
    has = Owned(active={"1": {0: 1}}, standby=TASK)
    assert step(has, StreamsTasks(active=TASK)) == (UNREVOKED, STANDBY, Owned(active={"1": {0: 1}}))
    claim = StreamsTasks(standby=TASK)
    assert step(has, StreamsTasks(active=TASK), claim=claim) == (STABLE, Owned(active=active(2)), NOTHING)


@each_case(
    "target, other",
    [
        (StreamsTasks(active=TASK), STANDBY),
        (StreamsTasks(active=TASK), WARMUP),
        (StreamsTasks(standby=TASK), ACTIVE),
        (StreamsTasks(standby=TASK), STANDBY),
        (StreamsTasks(standby=TASK), WARMUP),
        (StreamsTasks(warmup=TASK), ACTIVE),
        (StreamsTasks(warmup=TASK), STANDBY),
        (StreamsTasks(warmup=TASK), WARMUP),
    ],
)
def test_a_task_waits_for_another_member_of_the_process(target: StreamsTasks, other: Owned) -> None:
    assert step(NOTHING, target, member(other, "other")) == (UNRELEASED, NOTHING, NOTHING)
    gives_up = replace(member(NOTHING, "other"), revoking=other)
    assert step(NOTHING, target, gives_up) == (UNRELEASED, NOTHING, NOTHING)
    if not target.active:
        assert step(NOTHING, target, member(other, "other", "q"))[0] is STABLE
