"""A log of more segments than a process may have descriptors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from support.pipeline.stored_topic import TOPIC, many_segments

SEGMENTS = 600
DESCRIPTORS = 256
RUN = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
from ottla.pipeline.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(command: str, data_dir: Path, *options: str) -> Any:
    """What a command says, run here and without Spark in a process that may open few files."""
    line = [sys.executable, "-c", RUN, command, str(data_dir), "--topic", TOPIC, "--master", "none", *options, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_compacted_verified_and_snapshotted_all_the_same(tmp_path: Path) -> None:
    data_dir = many_segments(tmp_path, SEGMENTS)
    log = data_dir / f"{TOPIC}-0"
    assert len(list(log.glob("*.log"))) == SEGMENTS
    run("snapshot", data_dir, "--out", str(tmp_path / "before"))
    (result,) = run("compact", data_dir, "--install")["partitions"]
    assert (result["outcome"], result["segments"]) == ("installed", SEGMENTS - 1)
    assert len(list(log.glob("*.log"))) < SEGMENTS
    run("verify", data_dir)
    run("snapshot", data_dir, "--out", str(tmp_path / "after"))
