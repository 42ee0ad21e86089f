"""The location of the tests' files: `support.scratch`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from support import scratch
from support.scratch import NEEDED_BYTES, NOEXEC, is_large_enough, put_in_memory


@pytest.fixture(autouse=True)
def _large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "NEEDED_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")


def test_files_are_in_memory(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    put_in_memory(environment, tmp_path)
    assert environment == {"TMPDIR": str(tmp_path)}
    assert tempfile.tempdir is None, "it is asked for again"


@pytest.mark.parametrize(("folder", "environment"), [(".", {"TMPDIR": "/mine"}), ("missing", {})])
def test_files_stay_at_the_users_choice_and_without_memory_on_disk(
    folder: str, environment: dict[str, str], tmp_path: Path
) -> None:
    before = dict(environment)
    put_in_memory(environment, tmp_path / folder)
    assert environment == before
    assert tempfile.gettempdir() == "/tmp"


@pytest.mark.parametrize(
    ("free_bytes", "flags", "is_enough"),
    [(NEEDED_BYTES, 0, True), (NEEDED_BYTES - 4096, 0, False), (NEEDED_BYTES, NOEXEC, False)],
)
def test_memory_must_have_space_and_allow_programs(
    free_bytes: int, flags: int, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEEDED_BYTES", NEEDED_BYTES)
    blocks = free_bytes // 4096
    assert is_large_enough(os.statvfs_result((4096, 4096, blocks, blocks, blocks, 0, 0, 0, flags, 255))) is is_enough
