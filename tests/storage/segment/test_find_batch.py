"""A search that skips many batches at once finds the same as a walk from one batch to the next."""

from __future__ import annotations

import random
from contextlib import suppress
from types import ModuleType

import pytest

from ottla.protocol.errors import CorruptRecordError
from ottla.storage.disk.paths import OFFSET_MAX
from ottla.storage.segment import batch_scan
from ottla.storage.segment.batch_scan import UNREADABLE, batch_steps, find_batch
from support.cleaner.kernels import both
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch

WHERE = "a log"


def steps_until_refused(files: CrashFiles, path: str) -> list[tuple[int, int, int]]:
    """Return all batches that can be read."""
    found: list[tuple[int, int, int]] = []
    with suppress(*UNREADABLE):
        found.extend(batch_steps(files.open(path), 0, WHERE))
    return found


def log_of(sizes: list[int], end: bytes = b"") -> bytes:
    """Return batches of one record; the offsets of every third one begin two after the batch before."""
    data, offset = b"", 0
    for number, size in enumerate(sizes):
        offset += 2 if number % 3 == 2 else 0
        data += bytes(batch(("k", "v" * size), base_offset=offset))
        offset += 1
    return data + end


LOGS = {
    "small batches": log_of([20] * 130),
    "one": log_of([100]),
    "none": b"",
    "larger than what is read at once": log_of([9_000, 10, 5_000, 4_000, 10, 20_000]),
    "a header cut off": log_of([20] * 60, b"\0" * 30),
    "no batch behind them": log_of([20] * 60, b"\xff" * 500),
    "a batch cut off": log_of([20] * 3 + [300])[:-1],
    "mixed": log_of([random.Random(1).randrange(1, 3_000) for _ in range(60)]),
}


@both
@pytest.mark.parametrize("data", LOGS.values(), ids=LOGS)
def test_the_search_finds_the_batch_that_a_sequential_scan_finds(
    kernel: ModuleType, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_scan, "_pass_over", kernel.pass_over)
    files, path = CrashFiles(), "/data/log"
    files.make_dir("/data")
    files.open(path, create=True).append(data)
    file, steps = files.open(path), steps_until_refused(files, path)
    begins = [position for position, *_ in steps]
    end = steps[-1][1] if steps else 0

    for start in begins[:: max(1, len(begins) // 5)]:
        left = [step for step in steps if step[0] >= start]
        for limit in {*begins, *(place + 1 for place in begins), end}:
            if start <= limit <= end:
                expected = next(((position, stop) for position, stop, _ in left if stop > limit), None)
                if expected is not None or end == len(data):
                    assert find_batch(file, start, WHERE, limit=limit) == expected
        for below in {offset + more for *_, offset in left for more in (0, 1)}:
            expected = next(((position, stop) for position, stop, last in left if last >= below), None)
            if expected is not None or end == len(data):
                assert find_batch(file, start, WHERE, limit=2**40, below=below) == expected
    if end < len(data):
        with pytest.raises(CorruptRecordError):
            find_batch(file, 0, WHERE, limit=2**40)


@both
@pytest.mark.parametrize("base_offset", [OFFSET_MAX, 2**63 - 1])
def test_impossible_offsets_are_not_searched(kernel: ModuleType, base_offset: int) -> None:
    data = bytes(batch(("k", "v"), base_offset=base_offset, last_offset_delta=5))

    assert kernel.pass_over(data, 1_000, OFFSET_MAX)[0] == 0
