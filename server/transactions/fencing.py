"""What clients are told that do not know every error code."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError


def code_for(error: KafkaError, version: int, *, knows_fenced_since: int) -> ErrorCode:
    """The error's code in this version of a request: INVALID_PRODUCER_EPOCH stood for PRODUCER_FENCED (KIP-588)."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < knows_fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
