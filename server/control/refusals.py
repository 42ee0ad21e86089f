"""Errors of the protocol as refusals of a control operation."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from .errors import ControlError, Kind

KINDS: dict[ErrorCode, Kind] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Kind.UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Kind.UNAVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: Kind.NOT_FOUND,
    ErrorCode.KAFKA_STORAGE_ERROR: Kind.FAILED,
    ErrorCode.NON_EMPTY_GROUP: Kind.CONFLICT,
    ErrorCode.NOT_COORDINATOR: Kind.UNAVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Kind.UNAVAILABLE,
    ErrorCode.TOPIC_ALREADY_EXISTS: Kind.CONFLICT,
    ErrorCode.UNKNOWN_MEMBER_ID: Kind.CONFLICT,
    ErrorCode.UNKNOWN_SERVER_ERROR: Kind.FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Kind.NOT_FOUND,
}
"""All others say that an argument is wrong."""


def refusal(error: KafkaError, where: str = "") -> ControlError:
    """The same as an error of a control operation; `where` begins its sentence."""
    sentence = " ".join((error.message or error.code.name).split())
    return ControlError(KINDS.get(error.code, Kind.INVALID), f"{where}: {sentence}" if where else sentence)
