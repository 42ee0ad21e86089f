"""A member's acknowledgements of acquired records, as an update of the share partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise, zip_longest
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from .in_flight import Batch, State, StateChange, StateRun
from .share_partition import SharePartition, Update

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of an acknowledgement; a gap is an offset without record."""

_STATES = {GAP: State.ARCHIVED, ACCEPT: State.ACKNOWLEDGED}
_NOT_FOUND = "Batch record not found. The {} offset in request is past acquired records."


class Acknowledgement(NamedTuple):
    """Acknowledgement of records, both ends inclusive: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


def acknowledge(
    partition: SharePartition,
    member_id: str,
    acknowledgements: Sequence[Acknowledgement],
    elapsed_ms: int,
    most: int,
) -> tuple[Update, list[Acknowledgement]]:
    """Return the update for a member's acknowledgements, for `most` runs at most, and the remaining acknowledgements. Nothing
    is changed yet.

    The time depends on the numbers of types and of runs in flight, not on the number of offsets. Records before the start
    offset are completed, so they are ignored.

    Raises:
        KafkaError: INVALID_REQUEST: types that do not exist, a wrong number of types, offsets out of order, or after the last
            record in flight. INVALID_RECORD_STATE: the member has not acquired all these records, or may not renew its locks.
    """
    before = -1
    for one in acknowledgements:
        if not before <= one.first_offset <= one.last_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Acknowledgement batches overlap, or are out of order.")
        if len(one.types) not in (1, one.last_offset - one.first_offset + 1):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The number of acknowledge types does not match the number of offsets."
            )
        if min(one.types) < GAP or max(one.types) > RENEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid acknowledge type.")
        before = one.last_offset
    fates = _all_fates(partition, member_id, acknowledgements, elapsed_ms + partition.limits.lock_ms)
    update = partition.update(islice(fates, most))
    if len(update.changes) != most:
        return update, []
    if any(repeats_last(partition, one, behind) for one, behind in pairwise(acknowledgements)):
        raise _not_acquired()  # A caller that acknowledges in pieces must not have changed anything before this error.
    return update, _after_offset(acknowledgements, update.changes[-1].last)


def repeats_last(partition: SharePartition, one: Acknowledgement, behind: Acknowledgement) -> bool:
    """Whether the second begins with the last offset of the first, which is then no longer acquired."""
    return behind.first_offset == one.last_offset >= partition.start_offset and one.types[-1] != RENEW


def _after_offset(acknowledgements: Sequence[Acknowledgement], offset: int) -> list[Acknowledgement]:
    """Return the acknowledgements of records after `offset`."""
    left = [one for one in acknowledgements if one.last_offset > offset]
    if left and left[0].first_offset <= offset:
        first, last, types = left[0]
        left[0] = Acknowledgement(offset + 1, last, types if len(types) == 1 else types[offset + 1 - first :])
    return left


def _all_fates(
    partition: SharePartition, member_id: str, acknowledgements: Sequence[Acknowledgement], until_ms: int
) -> Iterator[tuple[StateRun, StateChange]]:
    """Iterate over the changes of all acknowledgements. If one begins with the last offset of the one before, that offset is no
    longer acquired, unless it was renewed."""
    for one, behind in zip_longest(acknowledgements, acknowledgements[1:]):
        if behind is not None and behind.first_offset == one.last_offset >= partition.start_offset:
            if one.types[-1] != RENEW:
                yield from _fates(partition, member_id, one, until_ms)
                _batches(partition, behind)  # Its error for offsets past the acquired records comes first.
                raise _not_acquired()
            one = _without_last(one)
        yield from _fates(partition, member_id, one, until_ms)


def _without_last(one: Acknowledgement) -> Acknowledgement:
    return one._replace(last_offset=one.last_offset - 1, types=one.types[:-1] if len(one.types) > 1 else one.types)


def _not_acquired() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired.")


def _fates(
    partition: SharePartition, member_id: str, one: Acknowledgement, until_ms: int
) -> Iterator[tuple[StateRun, StateChange]]:
    first, last = max(one.first_offset, partition.start_offset), one.last_offset
    if last < first:
        return
    at = iter([(last, one.types[0])]) if len(one.types) == 1 else _runs_of_types(one)
    kind_last, kind = next(at)
    for batch in _batches(partition, one):
        for run in batch.between(first, last):
            if run.state is not State.ACQUIRED:
                raise _not_acquired()
            if run.member_id != member_id:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
            run_last = min(run.last, last)
            low = max(run.first, first)
            while low <= run_last:
                while kind_last < low:
                    kind_last, kind = next(at)
                high = min(run_last, kind_last)
                yield run, _change(partition, run, kind, low, high, until_ms)
                low = high + 1


def _change(partition: SharePartition, run: StateRun, kind: int, first: int, last: int, until_ms: int) -> StateChange:
    if kind == RENEW:
        if not partition.limits.renews:
            message = "Renewing acquisition locks is not enabled for the group."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
        return StateChange(first, last, State.ACQUIRED, run.member_id, until_ms)
    if kind == REJECT:
        return StateChange(first, last, partition.dead_state, is_rejected=True)
    return StateChange(first, last, partition.released(run) if kind == RELEASE else _STATES[kind])


def _runs_of_types(one: Acknowledgement) -> Iterator[tuple[int, int]]:
    """Group consecutive equal types: the last offset of each group, and the type."""
    behind = one.first_offset
    for kind, alike in groupby(one.types):
        behind += sum(1 for _ in alike)
        yield behind - 1, kind


def _batches(partition: SharePartition, one: Acknowledgement) -> list[Batch]:
    """Return the batches in flight with these offsets. Raises an error for all offsets if there are none, or if the batches end
    before the last offset."""
    floor = partition.in_flight.floor(one.first_offset)
    if floor is None and one.first_offset < partition.start_offset:
        floor = partition.in_flight.floor(partition.start_offset)
    if floor is None:
        message = "Batch record not found. The request batch offsets are not found in the cache."
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
    batches = partition.in_flight.beginning(floor.first, one.last_offset)
    if batches[-1].last < one.first_offset:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _NOT_FOUND.format("first"))
    if batches[-1].last < one.last_offset:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _NOT_FOUND.format("last"))
    return batches
