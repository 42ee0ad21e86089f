"""Who gets the metrics that clients push: a function of the program around, or files in a directory."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from ...protocol.compression import decompress
from ...storage.disk.own_files import PRIVATE_DIRECTORY, check_data_dir, make_directory, open_file

FILES_MAX = 10_000
"""Reports in a directory; the oldest that this broker wrote go."""

FILES_BYTES_MAX = 1 << 30
"""Of them together: whoever may connect may push."""

UNPACKED_BYTES_MAX = 16 << 20
"""Of one report."""


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What a client pushed."""

    client_instance_id: str
    """As Apache Kafka writes ids: 22 characters."""
    client_id: str | None
    software_name: str | None
    software_version: str | None
    client_address: str
    received_ms: int
    """By the broker's clock."""
    is_terminating: bool
    """Whether it is the client's last."""
    otlp: bytes
    """OpenTelemetry's MetricsData v1 in protobuf, unpacked."""


Receiver: TypeAlias = Callable[[ClientMetrics], object]
"""Called in a worker thread, one report at a time; the client of one for which it raises is told INVALID_RECORD."""


def receiver_of(wanted: str | Receiver) -> Receiver:
    """The receiver that is meant: a function as it is, a path as a directory of reports.

    Raises:
        OSError: The directory is not there and cannot be made, or another user may write to it.
    """
    if callable(wanted):
        return wanted
    make_directory(wanted, PRIVATE_DIRECTORY)
    check_data_dir(wanted)
    return Directory(Path(wanted))


class Directory:
    """Writes each report as two files, `MILLISECONDS-INSTANCE-NUMBER.otlp` and what is known of the client beside it in
    `….json`; the first appears whole, when the second is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: deque[tuple[str, int]] = deque()
        """Names and sizes."""
        self._written_bytes = 0
        self._count = 0

    def __call__(self, metrics: ClientMetrics) -> None:
        self._count += 1
        name = f"{metrics.received_ms}-{metrics.client_instance_id}-{self._count}"
        facts = asdict(metrics)
        otlp = facts.pop("otlp")
        about = json.dumps(facts, indent=1).encode("utf-8", "backslashreplace")
        size_bytes = len(about) + len(otlp)
        self._written.append((name, size_bytes))  # first: of one that fails there may be a part
        self._written_bytes += size_bytes
        while len(self._written) > FILES_MAX or self._written_bytes > FILES_BYTES_MAX:
            self._remove_oldest()
        self._put(f"{name}.json", about)
        self._put(f"{name}.otlp", otlp)

    def _remove_oldest(self) -> None:
        name, size_bytes = self._written.popleft()
        self._written_bytes -= size_bytes
        for file in (f"{name}.otlp", f"{name}.json", f".{name}.otlp", f".{name}.json"):
            (self._path / file).unlink(missing_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        beside = self._path / f".{name}"
        with open(open_file(str(beside), os.O_WRONLY, create=True, truncate=True), "wb") as file:
            file.write(data)
        beside.replace(self._path / name)


def unpacked(codec: int, data: bytes) -> bytes:
    """The bytes of a report. Raises as `protocol.compression.decompress`."""
    return bytes(decompress(codec, data, max_bytes=UNPACKED_BYTES_MAX, max_frames=UNPACKED_BYTES_MAX >> 9))
