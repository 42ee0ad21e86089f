"""Numbers and times in readable form."""

from __future__ import annotations

import pytest

from ottla.server.page.section import duration, moment, number, segment, size


@pytest.mark.parametrize(
    ("count_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 10, "1.5 MiB"), (5 << 50, "5120.0 TiB")],
)
def test_sizes_are_formatted(count_bytes: int, text: str) -> None:
    assert size(count_bytes) == text


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (-90_061_000, "-1 d 1 h"),
        (86_400_000 * 10_000, "10000 d"),
    ],
)
def test_durations_are_formatted(span_ms: int, text: str) -> None:
    assert duration(span_ms) == text


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (None, "–"),
        (-1, "–"),
        (0, "1970-01-01 00:00:00.000"),
        (1_700_000_000_123, "2023-11-14 22:13:20.123"),
        (2**63 - 1, f"{2**63 - 1} ms"),
    ],
)
def test_moments_are_formatted(at_ms: int | None, text: str) -> None:
    assert moment(at_ms) == text


def test_counts_and_segments_are_formatted() -> None:
    assert number(1234567) == "1\u202f234\u202f567"
    assert segment("a/b ?#é") == "a%2Fb%20%3F%23%C3%A9"
