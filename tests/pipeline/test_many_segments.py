"""A log of more segments than a process may have descriptors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from support.pipeline.stored_topic import TOPIC, many_segments
from support.sizes import size

SEGMENTS = size(72, 600)
DESCRIPTORS = size(56, 256)
RUN = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
from ottla.pipeline.cli import main
for line in json.load(sys.stdin):
    if code := main(line):
        sys.exit(code)
    print(end="\\0")
"""


def run(data_dir: Path, *commands: Sequence[str]) -> list[Any]:
    """Return the output of each command, run without Spark, one after the other in a process that may open few files."""
    common = (str(data_dir), "--topic", TOPIC, "--master", "none", "--json")
    lines = json.dumps([[command, *common, *options] for command, *options in commands])
    line = [sys.executable, "-c", RUN]
    done = subprocess.run(line, input=lines, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(each) for each in done.stdout.split("\0")[:-1]]


def test_a_log_of_many_segments_is_compacted_verified_and_snapshotted(tmp_path: Path) -> None:
    data_dir = many_segments(tmp_path, SEGMENTS)
    log = data_dir / f"{TOPIC}-0"
    assert len(list(log.glob("*.log"))) == SEGMENTS
    before, after = (("snapshot", "--out", str(tmp_path / name)) for name in ("before", "after"))
    _, compacted, *_ = run(data_dir, before, ("compact", "--install"), ("verify",), after)
    (result,) = compacted["partitions"]
    assert (result["outcome"], result["segments"]) == ("installed", SEGMENTS - 1)
    assert len(list(log.glob("*.log"))) < SEGMENTS
