"""Counters with a rate, and times of frequent events."""

from __future__ import annotations

import pytest

from ottla.server.runtime.meters import Meter, Timer


def test_a_meter_counts_and_reports_the_rate_of_the_last_minute() -> None:
    meter = Meter()
    for second in range(300):
        meter.mark(40, float(second))
    assert meter.count == 300 * 40
    assert meter.one_minute_rate(300.0) == pytest.approx(40, rel=0.01)


def test_the_rate_decays_in_minutes() -> None:
    meter = Meter()
    meter.mark(0, 0.0)
    meter.mark(500, 1.0)
    assert meter.one_minute_rate(4.9) == 0  # before the first tick
    assert meter.one_minute_rate(5.0) == 100
    assert meter.one_minute_rate(65.0) == pytest.approx(100 / 2.71828, rel=1e-4)
    assert meter.one_minute_rate(605.0) == pytest.approx(0, abs=0.01)
    assert meter.count == 500


def test_a_rate_follows_events_after_a_pause() -> None:
    meter = Meter()
    meter.mark(500, 0.0)
    meter.mark(500, 50.0)
    assert 0 < meter.one_minute_rate(55.0) < 100


def test_a_timer_has_number_mean_and_maximum() -> None:
    timer = Timer()
    assert (timer.count, timer.mean_ms, timer.max_ms) == (0, 0.0, 0.0)
    timer.update(0.010)
    timer.update(0.002)
    assert timer.count == 2
    assert [timer.mean_ms, timer.max_ms] == pytest.approx([6, 10])
