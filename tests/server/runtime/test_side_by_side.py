"""Work on many files, some at a time."""

from __future__ import annotations

import threading

import pytest

from ottla.server.runtime.threads import MANY, SIDE_BY_SIDE, side_by_side

PATIENCE_S = 60


@pytest.mark.parametrize("number", [0, 1, MANY - 1, MANY, 10 * MANY])
def test_results_are_in_the_order_of_the_inputs(number: int) -> None:
    assert list(side_by_side(lambda each: -each, range(number))) == [-each for each in range(number)]


def test_many_inputs_are_processed_some_at_a_time() -> None:
    together = threading.Barrier(SIDE_BY_SIDE)
    assert len(list(side_by_side(lambda _: together.wait(PATIENCE_S), range(2 * SIDE_BY_SIDE)))) == 2 * SIDE_BY_SIDE


def test_few_inputs_are_processed_in_the_callers_thread() -> None:
    assert {*side_by_side(lambda _: threading.get_ident(), range(MANY - 1))} == {threading.get_ident()}


def test_all_threads_have_ended_when_one_has_raised() -> None:
    begun, ended = [], []
    threads: set[threading.Thread] = set()

    def work(each: int) -> None:
        threads.add(threading.current_thread())
        begun.append(each)
        if each == 1:
            raise OSError("no space left")
        ended.append(each)

    with pytest.raises(OSError, match="no space left"):
        side_by_side(work, range(MANY))
    assert sorted([*ended, 1]) == sorted(begun)
    assert not any(each.is_alive() for each in threads - {threading.current_thread()})


def test_an_index_error_is_an_error_of_the_work() -> None:
    with pytest.raises(IndexError, match="list index out of range"):
        side_by_side(lambda each: [][each], range(MANY))


def test_without_an_available_thread_the_work_is_done_sequentially(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(side_by_side(str, range(MANY))) == [str(each) for each in range(MANY)]
