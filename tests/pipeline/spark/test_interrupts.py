"""An interrupt during a call into the JVM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from ottla.pipeline.spark.interrupts import interrupts_deferred


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["heard", "ignored"])
def on_interrupt(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Set this process's reaction to an interrupt; a shell that starts it in the background makes it ignore interrupts."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_until_the_jvm_can_be_ended(on_interrupt: Any) -> None:
    reached = False
    is_heard = on_interrupt is not signal.SIG_IGN
    with pytest.raises(KeyboardInterrupt) if is_heard else nullcontext(), interrupts_deferred() as is_interrupted:
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted() == is_heard
        reached = True
    assert reached and signal.getsignal(signal.SIGINT) is on_interrupt
