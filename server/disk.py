"""Work on the disk that a request waits for: in a worker thread, and its failure as an error that clients understand."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from ..protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.disk")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def on_disk(work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """What `work(*arguments)` returns, or raises.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR where `work` raised OSError; the operator gets a line too.
    """
    try:
        return await trio.to_thread.run_sync(work, *arguments)
    except OSError as error:
        log.error("the disk refused: %s", error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk refused: {error}") from error
