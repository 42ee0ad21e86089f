"""A history: a topic's configs and the steps of its clients, with Apache Kafka's answers and the resulting log.

A generator makes the steps, the recorder fills in the answers, and the replay sends the same to Ottla and compares. All is
JSON, so that a recording can be read without code. Bytes are hexadecimal digits, in which the compressor finds
repetitions between dumps.

    step        made by the generator              filled in by the recorder
    produce     batch, wait_ms                     answer: error, base offset, append time, log start
    configs     set
    delete      offset                             answer: low watermark, error
    rounds                                         dump
    pass        set, expect (`live.EXPECTED`)      now, passes: [first dirty, end] each; dump

Every step gets `at`, the wall clock before it. A dump is the whole log as a client sees it, and the state behind it:
`log`, `log_start`, `high_watermark`, `last_stable`, `offsets` (of ListOffsets by time), `segments` (base offsets) and
`checkpoint` (the cleaner's).
"""

import json
import lzma
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HELD_BACK = {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": str(2**63 - 1)}
LET_GO = {"min.cleanable.dirty.ratio": "0.0"}

Step = dict[str, Any]


@dataclass
class History:
    """One topic's life. `start_ms` is the wall clock when it began; `map_entries` bounds the cleaner's map."""

    name: str
    theme: str
    seed: int
    start_ms: int
    configs: dict[str, str]
    map_entries: int | None = None
    steps: list[Step] = field(default_factory=list)


def save(path: Path, histories: list[History]) -> int:
    """Save the history, and return the file's size."""
    text = json.dumps([asdict(each) for each in histories], separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path.stat().st_size


def load(path: Path) -> list[History]:
    return [History(**each) for each in json.loads(lzma.decompress(path.read_bytes()))]
