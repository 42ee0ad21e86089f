"""The cost of a start: every test of every user waits for what it loads and writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.static_config import static_config
from ottla.storage.disk.paths import CATALOG_FILE
from support.disk.troubled_files import TroubledFiles

NOT_NEEDED = (
    *(
        "cramjam",
        "cryptography",
        "difflib",
        "encodings.idna",
        "h11",
        "importlib.metadata",
        "jinja2",
        "jwt",
        "lz4",
        "numpy",
        "re2",
        "yaml",
        "zstandard",
    ),
    "ottla.protocol.messages.cluster_metadata",
    "ottla.server.http",
    "ottla.server.registry",
    *(f"ottla.server.control.{name}" for name in ("compaction", "explain", "segments")),
    *(f"ottla.storage.cleaning.{name}" for name in ("clean_stats", "eligibility", "outlook", "progress")),
)

PROGRAM = """
import sys, ottla
with ottla.Broker():
    print([name for name in sys.argv[1:] if name in sys.modules])
with ottla.Broker(admin=0):
    print("h11" in sys.modules)
"""


def test_a_start_loads_no_unneeded_modules() -> None:
    """The admin listener needs h11, and a broker without it does not."""
    command = [sys.executable, "-c", PROGRAM, *NOT_NEEDED]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\nTrue\n"


async def test_a_start_writes_the_catalog_of_a_new_directory_once(tmp_path: Path) -> None:
    files, written = TroubledFiles(), list[str]()

    def note(operation: str, path: str) -> None:
        if operation == "rename" and CATALOG_FILE in path:
            written.append(path)

    files.trouble = note
    options = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
    async with run_supervisor(static_config(profile="dev", flags=options), files=files):
        assert len(written) == 1
