"""Shared code of the three Python readers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = list[Any]
"""Offset, key, value."""


@dataclass
class Read:
    """One read, and its result so far."""

    topic: str
    level: str
    offset: int
    end: int
    group: str | None
    idle_s: float
    records: list[Row] = field(default_factory=list)
    position: int | None = None
    at_end: bool = False
    _moved_s: float = field(default_factory=time.monotonic)

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.records.append([offset, text(key), text(value)])
        self._moved_s = time.monotonic()

    def stands_at(self, position: int | None) -> None:
        if position != self.position:
            self.position = position
            self._moved_s = time.monotonic()

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self._moved_s > self.idle_s

    def answer(self) -> str:
        return json.dumps({"records": self.records, "position": self.position, "at_end": self.at_end})


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def answer_reads(read: Callable[[str, Read], None]) -> None:
    """Answer what standard input asks for; `read` is called with the broker's address."""
    asked = json.load(sys.stdin)
    for each in asked["reads"]:
        made = Read(**each)
        read(asked["bootstrap"], made)
        print(made.answer(), flush=True)
