"""Deadlines: due in order, moved in place, and no memory for deleted ones."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.coordination import deadlines as deadlines_module
from ottla.server.coordination.deadlines import DROPPED_AT_ONCE, SPARE_ENTRIES, Deadline, Deadlines
from support.calls import at_most, calls_of
from support.sizes import size


class Ringing:
    """Deadlines that note when they fired."""

    def __init__(self, count: int) -> None:
        self.rung: list[tuple[int, int]] = []
        self.wakes = 0
        self.elapsed_ms = 0
        self.deadlines = Deadlines(lambda: self.elapsed_ms, self._wake)
        self.all = [Deadline(partial(self._ring, name)) for name in range(count)]

    def set(self, deadline: Deadline, due_ms: int) -> None:
        self.deadlines.start(deadline, due_ms - self.elapsed_ms)

    def run_due(self, at_ms: int) -> None:
        self.elapsed_ms = at_ms
        self.deadlines.run_due(at_ms)

    def _ring(self, name: int, now_ms: int) -> None:
        self.rung.append((name, now_ms))

    def _wake(self) -> None:
        self.wakes += 1


def test_deadlines_ring_in_the_order_of_their_times() -> None:
    it = Ringing(3)
    for deadline, due_ms in zip(it.all, (30, 10, 20), strict=True):
        it.set(deadline, due_ms)

    assert it.deadlines.next_due_ms() == 10
    it.run_due(25)

    assert it.rung == [(1, 25), (2, 25)]
    assert it.deadlines.next_due_ms() == 30


def test_a_deadline_rings_once() -> None:
    it = Ringing(1)
    it.set(it.all[0], 10)

    it.run_due(10)
    it.run_due(1_000)

    assert it.rung == [(0, 10)]
    assert it.deadlines.next_due_ms() is None


def test_a_moved_deadline_rings_only_at_its_last_time() -> None:
    it = Ringing(1)
    for due_ms in (10, 50, 20, 40, 30):
        it.set(it.all[0], due_ms)

    it.run_due(29)
    assert it.rung == []
    it.run_due(30)
    it.run_due(100)
    assert it.rung == [(0, 30)]


def test_a_cleared_deadline_does_not_ring() -> None:
    it = Ringing(2)
    it.set(it.all[0], 10)
    it.set(it.all[1], 20)
    it.deadlines.clear(it.all[0])
    it.deadlines.clear(it.all[0])

    assert it.deadlines.next_due_ms() == 20
    it.run_due(30)
    assert it.rung == [(1, 30)]


def test_an_action_may_clear_and_move_due_deadlines() -> None:
    it = Ringing(2)

    def meddle(now_ms: int) -> None:
        it.deadlines.clear(it.all[0])
        it.set(it.all[1], now_ms + 5)

    meddling = Deadline(meddle)
    it.set(meddling, 1)
    it.set(it.all[0], 2)
    it.set(it.all[1], 3)

    it.run_due(10)
    assert it.rung == []
    it.run_due(15)
    assert it.rung == [(1, 15)]


def test_a_deadline_set_for_now_waits_for_the_next_call() -> None:
    """Otherwise a deadline that sets itself again at once would never release the event loop."""
    it = Ringing(0)
    again = Deadline(lambda now_ms: it.set(again, now_ms))
    it.set(again, 10)

    it.run_due(10)

    assert it.deadlines.next_due_ms() == 10


def test_a_failing_action_does_not_lose_the_remaining_ones() -> None:
    it = Ringing(1)

    def fail(now_ms: int) -> None:
        raise ZeroDivisionError

    it.set(Deadline(fail), 1)
    it.set(it.all[0], 2)

    try:
        it.run_due(10)
    except ZeroDivisionError:
        it.run_due(10)

    assert it.rung == [(0, 10)]


def test_the_sleeper_wakes_for_an_earlier_time_but_not_a_later_one() -> None:
    it = Ringing(2)
    it.set(it.all[0], 100)
    assert it.wakes == 1
    it.set(it.all[1], 200)
    it.set(it.all[0], 150)
    assert it.wakes == 1
    it.set(it.all[1], 50)
    assert it.wakes == 2


def test_the_heap_may_be_rebuilt_during_the_search_for_the_earliest() -> None:
    it = Ringing(2 * SPARE_ENTRIES)
    for deadline in it.all:
        it.set(deadline, 1_000)
    first = it.all[0]
    it.set(first, 500)
    it.set(first, 2_000)
    for deadline in it.all[1:]:
        it.deadlines.clear(deadline)

    assert it.deadlines.next_due_ms() == 2_000


def test_moving_and_clearing_does_not_grow_the_heap() -> None:
    it = Ringing(10)
    for round_number in range(1_000):
        for deadline in it.all:
            # Earlier each time: the case that must queue again each time.
            it.set(deadline, 10_000 - round_number)

    most = 2 * (2 * len(it.all) + SPARE_ENTRIES)
    assert len(it.deadlines._heap) + len(it.deadlines._old) <= most

    for _ in range(1_000):
        forgotten = Deadline(lambda now_ms: None)
        it.set(forgotten, 5_000)
        it.deadlines.clear(forgotten)

    assert len(it.deadlines._heap) + len(it.deadlines._old) <= most


def test_no_call_scans_all_deadlines_that_were_cleared_together() -> None:
    it = Ringing(5_000)
    last = it.all[-1]
    for number, deadline in enumerate(it.all):
        it.set(deadline, 1_000 + number)
    for deadline in it.all[:-1]:
        it.deadlines.clear(deadline)

    most = calls_of(it.deadlines.next_due_ms)
    most = max(most, *(calls_of(lambda: it.run_due(1)) for _ in range(6)))

    assert most < 10 * DROPPED_AT_ONCE
    assert it.deadlines.next_due_ms() == last.due_ms


def test_queuing_a_deadline_does_not_scan_all_cleared_ones() -> None:
    it = Ringing(5_000)
    for number, deadline in enumerate(it.all):
        it.set(deadline, 1_000 + number)
    for deadline in it.all[100:]:
        it.deadlines.clear(deadline)

    def set_many() -> None:
        for _ in range(100):
            it.set(Deadline(lambda now_ms: None), 500)

    most = max(calls_of(set_many) for _ in range(15))

    assert most < 100 * 100
    assert len(it.deadlines._heap) + len(it.deadlines._old) < 3_000


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 50) | st.just("run")), max_size=200))
def test_deadlines_agree_with_a_table_that_is_scanned(steps: list[tuple[int, int | str | None]]) -> None:
    it = Ringing(5)
    table: dict[int, int] = {}
    now_ms = 0
    for name, step in steps:
        if step is None:
            it.deadlines.clear(it.all[name])
            table.pop(name, None)
        elif isinstance(step, int):
            it.set(it.all[name], now_ms + step)
            table[name] = now_ms + step
        else:
            now_ms += name
            it.rung.clear()
            it.run_due(now_ms)
            due = {one for one, due_ms in table.items() if due_ms <= now_ms}
            assert due == {one for one, _ in it.rung}
            assert sorted(it.rung, key=lambda pair: table[pair[0]]) == it.rung
            table = {one: due_ms for one, due_ms in table.items() if one not in due}
        assert it.deadlines.next_due_ms() == min(table.values(), default=None)


class Life:
    """Deadlines that are set, moved and cleared at random, also by their own actions, and a table of when each is due."""

    def __init__(self, seed: int, count: int = 8) -> None:
        self.rng = Random(seed)
        self.elapsed_ms = 0
        self.due_ms: dict[int, int] = {}
        self.set_in_call: set[int] = set()
        self.sleeps_until_ms: int | None = 0
        """The time of the next wake-up; None: until an event wakes it."""
        self.deadlines = Deadlines(lambda: self.elapsed_ms, self._wake)
        self.all = [Deadline(partial(self._ring, name)) for name in range(count)]

    @property
    def earliest_ms(self) -> int | None:
        return min(self.due_ms.values(), default=None)

    def _wake(self) -> None:
        self.sleeps_until_ms = self.elapsed_ms

    def look(self) -> None:
        """Check that a sleeper until the earliest deadline knows its time."""
        self.sleeps_until_ms = self.deadlines.next_due_ms()
        assert self.sleeps_until_ms == self.earliest_ms

    def _ring(self, name: int, now_ms: int) -> None:
        assert now_ms == -self.elapsed_ms
        due_ms = self.due_ms[name]
        assert due_ms <= self.elapsed_ms
        assert due_ms == self.earliest_ms
        del self.due_ms[name]
        for _ in range(self.rng.randrange(3)):
            self.meddle()

    def meddle(self) -> None:
        """Set, move or clear one of them."""
        name = self.rng.randrange(len(self.all))
        if self.rng.random() < 0.4:
            self.deadlines.clear(self.all[name])
            self.due_ms.pop(name, None)
            return
        delay_ms = self.rng.choice((0, 1, 5, 50, 500))
        self.deadlines.start(self.all[name], delay_ms)
        self.due_ms[name] = self.elapsed_ms + delay_ms
        self.set_in_call.add(name)
        assert self.sleeps_until_ms is not None
        assert self.sleeps_until_ms <= self.due_ms[name]

    def run_due(self) -> None:
        """Let time pass, and run what is due, or the first of it."""
        self.elapsed_ms += self.rng.choice((0, 1, 5, 50))
        left = self.rng.choice((1, 3, 100))

        def is_over() -> bool:
            nonlocal left
            left -= 1
            return not left

        self.set_in_call.clear()
        self.deadlines.run_due(-self.elapsed_ms, is_over)
        self.sleeps_until_ms = self.elapsed_ms
        if left:
            still_due = {name for name, due_ms in self.due_ms.items() if due_ms <= self.elapsed_ms}
            assert still_due <= self.set_in_call


@pytest.mark.parametrize("seed", range(size(1, 3)))
def test_long_histories_of_deadlines_agree_with_a_table(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With almost no spare pairs the heap is rebuilt all the time, from everywhere that queues."""
    monkeypatch.setattr(deadlines_module, "SPARE_ENTRIES", 1)
    life = Life(seed)
    for _ in range(size(2_000, 10_000)):
        with at_most(10_000):
            if life.rng.random() < 0.8:
                life.meddle()
            else:
                life.run_due()
            if life.rng.random() < 0.5:
                life.look()
