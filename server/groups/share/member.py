"""One member of a share group, as it was written down last. Members are values: a change makes another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ..assigning.assignment import Assignment
from ..kinds import check_none
from ..subscription import NAMES_MAX

LEAVE_EPOCH = -1
"""A member that sends this epoch leaves."""
STABLE = 0
"""The only state that a member of a share group is in: it gives nothing up, so it has at once what it should have."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """
    Attributes:
        epoch: The target assignment's epoch that it has arrived in; 0 before the first.
        previous_epoch: The one before, which it still may name if our last answer was lost.
        state: As in its record; others than STABLE come from newer coordinators.
        assigned: What it may fetch from. Others may have the same partitions.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict)


_MEMBER_ID_UNITS_MAX = 36
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))


def check_member_id(member_id: str) -> None:
    """Raise KafkaError INVALID_REQUEST for an id that is not one of a client's UUIDs: empty, or longer."""
    # Java counts UTF-16 units.
    if not member_id or len(member_id[: _MEMBER_ID_UNITS_MAX + 1].encode("utf-16-le")) > 2 * _MEMBER_ID_UNITS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # Apache Kafka has no message here either.


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Check a ShareGroupHeartbeat, without regard to the group.

    A member is added in one piece, during which other requests wait. So the number of topics that it may name is bounded.

    Raises:
        KafkaError: INVALID_REQUEST; the checks are in Apache Kafka's order.
    """
    names, epoch = request.subscribed_topic_names or (), request.member_epoch
    told = f"Too many subscribed topics in the request ({len(names)}, limit {NAMES_MAX})."
    check_none(
        (_is_blank(request.member_id), "MemberId can't be empty."),
        (_is_blank(request.group_id), "GroupId can't be empty."),
        (request.rack_id is not None and _is_blank(request.rack_id), "RackId can't be empty."),
        (not epoch and not names, "SubscribedTopicNames must be set in first request."),
        (epoch < LEAVE_EPOCH, "MemberEpoch is invalid."),
        (len(names) > NAMES_MAX, told),
    )


def _is_blank(text: str) -> bool:
    """Whether a text is empty after Java's `trim`, which removes control characters and spaces."""
    return not text.strip(_BLANKS)
