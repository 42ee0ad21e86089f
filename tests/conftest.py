"""Async tests run on Trio, one run each; a test with the fixture `autojump_clock` runs in virtual time.

In virtual time a wait of any length ends as soon as every task waits, so no test sleeps.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
from collections.abc import Generator
from functools import partial
from typing import Any

import hypothesis
import pytest
import trio
import trio.testing

from support.budget import pytest_runtest_call, pytest_terminal_summary
from support.order import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_report_header,
    pytest_runtest_protocol,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)
from support.scratch import put_in_memory
from support.sizes import FULL, size

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
]

# The duration of an example depends on the machine. A short run has the same examples each time.
hypothesis.settings.register_profile(
    "tests", deadline=None, max_examples=size(15, 100), derandomize=not FULL, database=None
)
hypothesis.settings.load_profile("tests")

if not FULL:
    put_in_memory(os.environ)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell that starts pytest in the background ignores signals. Every process that a test starts and interrupts inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Freeze all collected objects: a third of the time went into looking for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # garbage is rare at this point, and looking for it takes a second
        gc.enable()


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Return the virtual clock of this test's Trio run."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    clock = arguments.get("autojump_clock")
    assert clock is None or isinstance(clock, trio.testing.MockClock)
    trio.run(partial(pyfuncitem.obj, **arguments), clock=clock)
    return True
