"""What the admin HTTP listener does: JSON in, JSON out, one function a call.

    GET  /v1/cleaning/status?topic=T&partition=P
    POST /v1/cleaning/pause    {"topic", "partition", "lease_ms"[, "lease"]}           a new lease, or one renewed
    POST /v1/cleaning/install  {"topic", "partition", "lease", "sources": [[base offset, bytes], ...],
                                "staged": directory, "manifest_crc"}
    POST /v1/cleaning/resume   {"topic", "partition", "lease"[, "clean_up_to"]}

An answer is an object: what was asked for, or `{"error": sentence}` under a status of 4xx or 5xx.
"""

from __future__ import annotations

import json
import json.scanner
import os
import reprlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard, TypeVar
from urllib.parse import parse_qsl, urlsplit

import trio

from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ..cleaning.cleaning import Cleaning
from ..cleaning.leases import LEASE_MS_MAX, CleaningLeases, LeaseError
from ..runtime.clock import Clock
from ..runtime.disk import Work, in_thread
from ..runtime.turns import Turn

Fields = Mapping[str, Any]
Answer = dict[str, Any]
Given = TypeVar("Given")
Result = TypeVar("Result")

_UINT32_MAX = 2**32 - 1

READ_AT_ONCE_BYTES = 64 << 10
"""Of JSON; a millisecond or two."""


class CallError(Exception):
    """A request that is no call of ours."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AdminCalls:
    """See the module."""

    def __init__(self, leases: CleaningLeases, cleaning: Cleaning, clock: Clock) -> None:
        self.leases = leases
        self._cleaning = cleaning
        self._clock = clock
        self._thread = trio.CapacityLimiter(1)
        self._calls: dict[str, tuple[str, Callable[[Fields], Awaitable[Answer]]]] = {
            "/v1/cleaning/status": ("GET", self._status),
            "/v1/cleaning/pause": ("POST", self._pause),
            "/v1/cleaning/install": ("POST", self._install),
            "/v1/cleaning/resume": ("POST", self._resume),
        }

    async def answer(self, method: str, target: str, body: bytes) -> tuple[int, Answer]:
        """HTTP status and answer of one request. `target` is path and query."""
        try:
            path, query = _split(target)
            if path not in self._calls:
                raise CallError(404, f"there is no {path}; there are: {', '.join(self._calls)}")
            wanted, call = self._calls[path]
            if method == "HEAD":  # the answer is the same, and not sent
                method = "GET"
            if method != wanted:
                raise CallError(405, f"{path} wants {wanted}, found {method}")
            return 200, await call(query if method == "GET" else await self.in_worker(_object, body))
        except (CallError, LeaseError) as error:
            return error.status, {"error": str(error)}

    async def in_worker(self, work: Callable[[Given], Result], given: Given) -> Result:
        """`work(given)`, which may take a second or two for the largest bodies: one at a time, as it is all Python."""
        return await trio.to_thread.run_sync(work, given, limiter=self._thread)

    async def _status(self, fields: Fields) -> Answer:
        partition = str(fields.get("partition", ""))
        if not (partition.isascii() and partition.isdigit() and len(partition) < 11):
            raise CallError(422, f"partition: expected a number, found {partition[:40]!r}")
        tp = _topic_partition({**fields, "partition": int(partition)})
        log = self.leases.log_of(tp)
        data_dir = data_dir_of(log)
        real_data_dir = await in_thread(Work.READ, data_dir, os.path.realpath, data_dir)
        segments = await Turn().map(lambda each: [each.base_offset, each.size_bytes], log.segments)
        lease = self.leases.of(tp)
        return {
            "data_dir": real_data_dir,
            "cleaning": self._cleaning.manager.state_name(tp),
            "lease_expires_ms": self._clock.wall_at(lease.due_ms) if lease else None,
            "now_ms": self._clock.now_ms(),
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "segments": segments,
        }

    async def _pause(self, fields: Fields) -> Answer:
        lease_id = _text(fields, "lease") if "lease" in fields else None
        lease = await self.leases.pause(
            _topic_partition(fields), _number(fields, "lease_ms", 1, LEASE_MS_MAX), lease_id
        )
        return {
            "lease": lease.lease_id,
            "expires_ms": self._clock.wall_at(lease.due_ms),
            "now_ms": self._clock.now_ms(),
        }

    async def _install(self, fields: Fields) -> Answer:
        new = await self.leases.install(
            _topic_partition(fields),
            _text(fields, "lease"),
            await self.in_worker(_sources, fields),
            _text(fields, "staged"),
            _number(fields, "manifest_crc", 0, _UINT32_MAX),
        )
        return {"base_offset": new.base_offset, "size_bytes": new.size_bytes}

    async def _resume(self, fields: Fields) -> Answer:
        clean_up_to = _number(fields, "clean_up_to", 0, paths.OFFSET_MAX) if "clean_up_to" in fields else None
        await self.leases.resume(_topic_partition(fields), _text(fields, "lease"), clean_up_to)
        return {}


def _split(target: str) -> tuple[str, dict[str, str]]:
    try:
        found = urlsplit(target)
        return found.path, dict(parse_qsl(found.query, max_num_fields=20))
    except ValueError as error:
        raise CallError(400, f"expected a path, found {target[:100]!r}: {error}") from None


class _Patient(json.JSONDecoder):
    """Reads as slowly as Python does: the decoder in C lets no other thread run before it has come to the end."""

    def __init__(self) -> None:
        super().__init__()
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # typeshed lacks it


def encoded(answer: Answer) -> bytes:
    """As JSON, for a worker thread: as with `_Patient` others run meanwhile."""
    return "".join(json.JSONEncoder().iterencode(answer)).encode() + b"\n"


def _object(body: bytes) -> Fields:
    decoder = json.JSONDecoder() if len(body) <= READ_AT_ONCE_BYTES else _Patient()
    try:
        found = decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise CallError(400, f"expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise CallError(400, f"expected a JSON object, found {type(found).__name__}")
    return found


def _topic_partition(fields: Fields) -> TopicPartition:
    return TopicPartition(_text(fields, "topic"), _number(fields, "partition", 0, paths.PARTITION_MAX))


def _text(fields: Fields, name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str) or not found or "\0" in found:
        raise CallError(422, f"{name}: expected a text, found {_shown(found)}")
    return found


def _number(fields: Fields, name: str, low: int, high: int) -> int:
    found = fields.get(name)
    if not _is_number(found) or not low <= found <= high:
        raise CallError(422, f"{name}: expected a number from {low} to {high}, found {_shown(found)}")
    return found


def _sources(fields: Fields) -> list[tuple[int, int]]:
    found = fields.get("sources")
    if not isinstance(found, list) or not found or not all(_is_source(each) for each in found):
        raise CallError(422, f"sources: expected pairs of base offset and bytes, found {_shown(found)}")
    return [(base_offset, size_bytes) for base_offset, size_bytes in found]


def _is_source(found: object) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(_is_number(each) and each >= 0 for each in found)


def _is_number(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool)


def _shown(found: object) -> str:
    return reprlib.repr(found)[:100]
