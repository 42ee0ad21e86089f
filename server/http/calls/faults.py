"""Faults, and leaders that move: see `..control.faults` and `..control.leaders`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.faults import (
    FaultList,
    FaultsCleared,
    FaultState,
    clear_faults,
    declare,
    get_fault,
    list_faults,
    remove_fault,
    wait_for_fault,
)
from ...control.leaders import LeaderMoved, move_coordinator, move_leader
from ...faults.declaration import COUNT_MAX, Declaration
from ..call import Call, Lives, Nothing
from ..fields import INT64_MAX, Name, PartitionId, Range, TopicName

WAIT_MS_MAX = 600_000


@dataclass(frozen=True, slots=True)
class FaultRequest:
    fault_id: Annotated[int, Range(1, INT64_MAX)]


@dataclass(frozen=True, slots=True)
class FaultWaitRequest:
    fault_id: Annotated[int, Range(1, INT64_MAX)]
    hits: Annotated[int, Range(1, COUNT_MAX)] = 1
    timeout_ms: Annotated[int, Range(0, WAIT_MS_MAX)] = 10_000
    """Then the answer is what it has met so far."""


@dataclass(frozen=True, slots=True)
class LeaderRequest:
    topic: TopicName
    partition: PartitionId
    node: Annotated[int, Range(0, COUNT_MAX)]
    """That is to lead."""


@dataclass(frozen=True, slots=True)
class CoordinatorRequest:
    node: Annotated[int, Range(0, COUNT_MAX)]
    """That is to coordinate."""
    group: Name | None = None
    transactional_id: Name | None = None
    topic: TopicName | None = None
    """Of a share partition of the group."""
    partition: PartitionId | None = None


async def declared(lives: Lives, request: Declaration) -> FaultState:
    return await declare(lives.broker, request)


async def listed(lives: Lives, _: Nothing) -> FaultList:
    return await list_faults(lives.broker)


async def cleared(lives: Lives, _: Nothing) -> FaultsCleared:
    return await clear_faults(lives.broker)


async def found(lives: Lives, request: FaultRequest) -> FaultState:
    return await get_fault(lives.broker, request.fault_id)


async def removed(lives: Lives, request: FaultRequest) -> FaultState:
    return await remove_fault(lives.broker, request.fault_id)


async def waited_for(lives: Lives, request: FaultWaitRequest) -> FaultState:
    return await wait_for_fault(lives.broker, request.fault_id, request.hits, request.timeout_ms)


async def led(lives: Lives, request: LeaderRequest) -> LeaderMoved:
    return await move_leader(lives.broker, request.topic, request.partition, request.node)


async def coordinated(lives: Lives, request: CoordinatorRequest) -> LeaderMoved:
    return await move_coordinator(
        lives.broker,
        request.node,
        group=request.group,
        transactional_id=request.transactional_id,
        topic=request.topic,
        partition=request.partition,
    )


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "POST",
        "/v1/faults",
        "Declare a fault: which requests, and what becomes of them; or what is wrong with a disk.",
        Declaration,
        FaultState,
        declared,
        statuses=(404,),
    ),
    Call("GET", "/v1/faults", "All declared faults, spent ones included.", Nothing, FaultList, listed, only_waits=True),
    Call("DELETE", "/v1/faults", "Remove all faults.", Nothing, FaultsCleared, cleared),
    Call(
        "GET",
        "/v1/faults/{fault_id}",
        "One fault, and what it has met.",
        FaultRequest,
        FaultState,
        found,
        statuses=(404,),
        only_waits=True,
    ),
    Call(
        "DELETE",
        "/v1/faults/{fault_id}",
        "Remove a fault: who is kept waiting by it goes on.",
        FaultRequest,
        FaultState,
        removed,
        statuses=(404,),
    ),
    Call(
        "GET",
        "/v1/faults/{fault_id}/wait",
        "Answer once a fault has met so many requests, or the time is over.",
        FaultWaitRequest,
        FaultState,
        waited_for,
        statuses=(404,),
        only_waits=True,
    ),
    Call(
        "POST",
        "/v1/topics/{topic}/partitions/{partition}/leader",
        "Have another node lead a partition.",
        LeaderRequest,
        LeaderMoved,
        led,
        statuses=(404, 409, 500),
    ),
    Call(
        "POST",
        "/v1/coordinators",
        "Have another node coordinate a group, a transactional id, or a share partition: a group, a topic and a partition.",
        CoordinatorRequest,
        LeaderMoved,
        coordinated,
        statuses=(404, 409, 500),
    ),
)
