"""Processes that tests start themselves end with the block that uses them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.commands.ended import ended

FOR_EVER = [sys.executable, "-c", "import signal; signal.pause()"]


def test_a_failing_block_ends_its_process() -> None:
    with pytest.raises(ZeroDivisionError), ended(subprocess.Popen(FOR_EVER)) as process:
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGKILL


def test_the_wait_for_a_missing_line_is_limited() -> None:
    with ended(subprocess.Popen(FOR_EVER, stdout=subprocess.PIPE), life_s=0.1) as process:
        assert process.stdout is not None and process.stdout.readline() == b""
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_ended_is_left_alone() -> None:
    with ended(subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])) as process:
        pass
    assert process.returncode == 3
