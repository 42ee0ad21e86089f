"""Result of a simulation, or of a run of the real cleaner: what some settings cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

DAY_MS = 86_400_000
CURVE_POINTS = 500


class Age(NamedTuple):
    """Records that became that old before they were removed: evenly from `low_ms` to `high_ms`."""

    low_ms: float
    high_ms: float
    records: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How old records became; None if there were none."""

    records: int
    p50_ms: int | None
    p99_ms: int | None
    longest_ms: int | None

    @classmethod
    def from_parts(cls, removed: Iterable[Age], left: Iterable[Age] = ()) -> Ages:
        """Return the ages of removed records. Those that are `left` at the end, and may be expected ones, count for the longest."""
        found = [part for part in removed if part.records > 0]
        total = sum(part.records for part in found)
        either = [*found, *(part for part in left if part.records > 0)]
        longest = sum(part.records for part in either) - 0.5
        return cls(
            records=round(total),
            p50_ms=_quantile_ms(found, total / 2),
            p99_ms=_quantile_ms(found, total * 0.99),
            longest_ms=_quantile_ms(either, longest) if longest > 0 else None,
        )


def _quantile_ms(parts: Sequence[Age], wanted: float) -> int | None:
    """Return the age below which `wanted` records are; each part is spread evenly."""
    edges: list[tuple[float, float]] = []
    for low_ms, high_ms, records in parts:
        high_ms = max(high_ms, low_ms + 1)
        density = records / (high_ms - low_ms)
        edges += [(low_ms, density), (high_ms, -density)]
    edges.sort()
    passed = density = at_ms = 0.0
    for edge_ms, change in edges:
        more = density * (edge_ms - at_ms)
        if passed + more >= wanted and density > 0:
            return round(at_ms + (wanted - passed) / density)
        passed, density, at_ms = passed + more, density + change, edge_ms
    return round(at_ms) if edges else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Result of `span_ms`. Sizes are those of the log's segments, which a new reader has to read."""

    span_ms: int
    sizes: tuple[tuple[int, int], ...]
    """Times in ms from the begin, and bytes from then on; a selection of at most CURVE_POINTS."""
    least_bytes: int
    mean_bytes: int
    peak_bytes: int
    passes: int
    read_bytes_per_day: int
    """The cleaner reads the dirty part twice in a pass, and the rest once."""
    written_bytes_per_day: int
    busy_ms_per_day: int
    """Time of the cleaner's thread."""
    superseded: Ages
    """Ages of superseded values: from the write of the newer record to the removal of the older one."""
    tombstones: Ages
    """Ages of tombstones, from their write to their removal."""

    @classmethod
    def from_run(
        cls,
        *,
        span_ms: int,
        sizes: Sequence[tuple[int, int]],
        passes: int,
        read_bytes: int,
        written_bytes: int,
        busy_ms: int,
        superseded: Ages,
        tombstones: Ages,
    ) -> Prediction:
        """Return the result of a run.

        Args:
            sizes: All changes of the size, in order of time; the second half of the time counts for the least, as the log grows
                first.
        """
        days = max(span_ms, 1) / DAY_MS
        ends = [at_ms for at_ms, _ in sizes[1:]] + [span_ms]
        lasting = [(end - at_ms, size) for (at_ms, size), end in zip(sizes, ends, strict=True)]
        total_ms = sum(lasted for lasted, _ in lasting)
        step = -(-len(sizes) // CURVE_POINTS)
        return cls(
            span_ms=span_ms,
            sizes=tuple(sizes[::step]),
            least_bytes=min(
                (size for (_, size), end in zip(sizes, ends, strict=True) if end >= span_ms // 2), default=0
            ),
            mean_bytes=round(sum(lasted * size for lasted, size in lasting) / total_ms) if total_ms else 0,
            peak_bytes=max((size for _, size in sizes), default=0),
            passes=passes,
            read_bytes_per_day=round(read_bytes / days),
            written_bytes_per_day=round(written_bytes / days),
            busy_ms_per_day=round(busy_ms / days),
            superseded=superseded,
            tombstones=tombstones,
        )
