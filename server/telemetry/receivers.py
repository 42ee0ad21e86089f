"""Receivers of the metrics that clients push: a function of the program, or files in a directory."""

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
"""Largest number of reports in a directory; the oldest ones of this broker are deleted."""

FILES_BYTES_MAX = 1 << 30
"""Largest size of all reports: any client that may connect may push."""

UNPACKED_BYTES_MAX = 16 << 20
"""Largest size of one report, unpacked."""


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """A client's report."""

    client_instance_id: str
    """Id in Apache Kafka's format: 22 characters."""
    client_id: str | None
    software_name: str | None
    software_version: str | None
    client_address: str
    received_ms: int
    """Time of receipt by the broker's clock."""
    is_terminating: bool
    """Whether it is the client's last report."""
    otlp: bytes
    """OpenTelemetry's MetricsData v1 in protobuf, unpacked."""


Receiver: TypeAlias = Callable[[ClientMetrics], object]
"""Function that is called in a worker thread, one report at a time; if it raises, the client gets INVALID_RECORD."""


def receiver_of(wanted: str | Receiver) -> Receiver:
    """Make the receiver: a function itself, or a directory of reports for a path.

    Raises:
        OSError: The directory cannot be created, or another user may write to it.
    """
    if callable(wanted):
        return wanted
    make_directory(wanted, PRIVATE_DIRECTORY)
    check_data_dir(wanted)
    return Directory(Path(wanted))


class Directory:
    """Directory that gets each report as two files: `MILLISECONDS-INSTANCE-NUMBER.otlp`, and `….json` with facts about the
    client. The first appears complete, after the second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: deque[tuple[str, int]] = deque()
        """Names and sizes of written reports."""
        self._written_bytes = 0
        self._count = 0

    def __call__(self, metrics: ClientMetrics) -> None:
        self._count += 1
        name = f"{metrics.received_ms}-{metrics.client_instance_id}-{self._count}"
        facts = asdict(metrics)
        otlp = facts.pop("otlp")
        about = json.dumps(facts, indent=1).encode("utf-8", "backslashreplace")
        size_bytes = len(about) + len(otlp)
        self._written.append((name, size_bytes))  # first: a failed write may leave a part
        self._written_bytes += size_bytes
        while len(self._written) > FILES_MAX or self._written_bytes > FILES_BYTES_MAX:
            self._remove_oldest()
        self._write_file(f"{name}.json", about)
        self._write_file(f"{name}.otlp", otlp)

    def _remove_oldest(self) -> None:
        name, size_bytes = self._written.popleft()
        self._written_bytes -= size_bytes
        for file in (f"{name}.otlp", f"{name}.json", f".{name}.otlp", f".{name}.json"):
            (self._path / file).unlink(missing_ok=True)

    def _write_file(self, name: str, data: bytes) -> None:
        beside = self._path / f".{name}"
        with open(open_file(str(beside), os.O_WRONLY, create=True, truncate=True), "wb") as file:
            file.write(data)
        beside.replace(self._path / name)


def unpacked(codec: int, data: bytes) -> bytes:
    """Return the unpacked bytes of a report. Raises as `protocol.compression.decompress` does."""
    return bytes(decompress(codec, data, max_bytes=UNPACKED_BYTES_MAX, max_frames=UNPACKED_BYTES_MAX >> 9))
