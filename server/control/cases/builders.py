"""How the log of each case comes to be: the steps that led to it somewhere, taken one after the other.

`time_ms` is the time of the case, its load being `Case.begins_before_ms` later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ....protocol.compression import Codec
from .bench import Bench
from .table import DAY_MS, FAR

Build: TypeAlias = Callable[[Bench, int], None]


def trailing_marker(bench: Bench, time_ms: int) -> None:
    writer = bench.producer(transactional=True)
    bench.batch(time_ms, ("k1", "a"), ("k2", "b"), ("k3", "c"), by=writer)
    bench.end(time_ms, writer, commit=True)


def gap_at_the_end(bench: Bench, time_ms: int) -> None:
    bench.segment_at(0, time_ms, ("k1", "a"), ("k2", "b"), ("k3", "c"), ("k4", "d"), ("k5", "e"))
    bench.segment_at(8, time_ms)


def emptied_batch(bench: Bench, time_ms: int) -> None:
    first, last = bench.producer(), bench.producer()
    bench.batch(time_ms, ("k1", "a"), ("k2", "b"), by=first)
    bench.batch(time_ms, ("k1", "c"), ("k2", "d"), ("k3", "e"))
    bench.batch(time_ms, ("k4", None), by=last)
    bench.roll(time_ms)
    bench.clean(time_ms)  # stamps the tombstone's horizon, which is a day later
    bench.clean(time_ms + DAY_MS + 1)


def batch_compacted_away(bench: Bench, time_ms: int) -> None:
    bench.batch(time_ms, ("k0", "a"))
    bench.batch(time_ms, ("k1", "b"), ("k2", "c"))
    bench.batch(time_ms, ("k1", "d"), ("k2", "e"))
    bench.batch(time_ms, ("k3", "f"))
    bench.roll(time_ms)
    bench.clean(time_ms)


def aborted_only(bench: Bench, time_ms: int) -> None:
    writer = bench.producer(transactional=True)
    bench.batch(time_ms, ("k1", "a"), ("k2", "b"), ("k3", "c"), by=writer)
    bench.end(time_ms, writer, commit=False)


def log_start_inside_batch(bench: Bench, time_ms: int) -> None:
    # Where the log starts is said by `Case.start_offset`: it is no part of the files.
    bench.batch(time_ms, *((f"k{number}", f"v{number}") for number in range(10)))
    bench.batch(time_ms, ("k10", "v10"), ("k11", "v11"))


def batch_begins_below_fetch(bench: Bench, time_ms: int) -> None:
    bench.batch(time_ms, *((f"k{number}", "a") for number in range(10)), codec=Codec.GZIP)
    bench.batch(time_ms, *((f"k{number}", "b") for number in (0, 1, 2, 3, 5, 6, 7)))
    bench.roll(time_ms)
    bench.clean(time_ms)


def timestamps_out_of_order(bench: Bench, time_ms: int) -> None:
    bench.batch(time_ms, ("k0", "a", 5_000))
    bench.batch(time_ms, ("k1", "b", 1_000), ("k2", "c", 9_000), ("k3", "d", 3_000))
    bench.batch(time_ms, ("k4", "e", 2_000))
    bench.batch(time_ms, ("k5", "f", 0))


def transaction_across_segments(bench: Bench, time_ms: int) -> None:
    kept, lost = bench.producer(transactional=True), bench.producer(transactional=True)
    bench.batch(time_ms, ("k1", "a"), by=kept)
    bench.batch(time_ms, ("k2", "b"))
    bench.roll(time_ms)
    bench.batch(time_ms, ("k3", "c"), by=kept)
    bench.batch(time_ms, ("k4", "d"), by=lost)
    bench.roll(time_ms)
    bench.batch(time_ms, ("k5", "e"), by=lost)
    bench.end(time_ms, kept, commit=True)
    bench.end(time_ms, lost, commit=False)
    bench.batch(time_ms, ("k6", "f"))


def tombstone_at_its_horizon(bench: Bench, time_ms: int) -> None:
    bench.batch(time_ms, ("k1", "a"), ("k2", "b"))
    bench.batch(time_ms, ("k1", None))
    bench.batch(time_ms, ("k3", "c"))
    bench.roll(time_ms)
    bench.clean(time_ms)  # the horizon is a day later, which is when the case is loaded


def offsets_far_apart(bench: Bench, time_ms: int) -> None:
    bench.segment_at(0, time_ms, ("k1", "a"), ("k2", "b"))
    bench.segment_at(FAR, time_ms, ("k3", "c"), ("k4", "d"))
    bench.segment_at(2 * FAR, time_ms, ("k5", "e"), ("k6", "f"))


def group_epoch_near_its_end(bench: Bench, time_ms: int) -> None:
    bench.batch(time_ms, ("k1", "a"), ("k2", "b"), ("k3", "c"))


BUILDS: Mapping[str, Build] = {
    "trailing-marker": trailing_marker,
    "gap-at-the-end": gap_at_the_end,
    "emptied-batch": emptied_batch,
    "batch-compacted-away": batch_compacted_away,
    "aborted-only": aborted_only,
    "log-start-inside-batch": log_start_inside_batch,
    "batch-begins-below-fetch": batch_begins_below_fetch,
    "timestamps-out-of-order": timestamps_out_of_order,
    "transaction-across-segments": transaction_across_segments,
    "tombstone-at-its-horizon": tombstone_at_its_horizon,
    "offsets-far-apart": offsets_far_apart,
    "group-epoch-near-its-end": group_epoch_near_its_end,
}
"""By the case's name."""
