"""What a ShareGroupHeartbeat must look like, whatever the group.

A member is taken in at once, for everybody; so there are bounds on what it may name.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ..kinds import check_none
from ..subscription import NAMES_MAX
from .member import LEAVE_EPOCH

_MEMBER_ID_UNITS_MAX = 36
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))


def check_member_id(member_id: str) -> None:
    """Raise KafkaError INVALID_REQUEST for an id that is not one of a client's UUIDs: empty, or longer."""
    # Java counts UTF-16 units.
    if not member_id or len(member_id[: _MEMBER_ID_UNITS_MAX + 1].encode("utf-16-le")) > 2 * _MEMBER_ID_UNITS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # In Apache Kafka, too, nothing is said.


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise KafkaError INVALID_REQUEST, in the order in which Apache Kafka looks."""
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
    """As Java trims: nothing but controls and spaces."""
    return not text.strip(_BLANKS)
