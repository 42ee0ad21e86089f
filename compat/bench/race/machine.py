"""The machine and the versions of all sides, for the report: no names of hosts, no paths."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

from ...support.brokers.apache_kafka import VERSION
from ..table import KAFKA, OTTLA
from .figures import KFAKE, MOCK
from .sides import KFAKE_SOURCE, ROOT

BROKER = ("protocol", "storage", "server")
CPU_MODEL = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)
KFAKE_VERSION = re.compile(r"franz-go/pkg/kfake v\S*?(\d{8})\d{6}-([0-9a-f]{7})")
NUMBERED = re.compile(r"(?<=\d)[^\d.].*")
"""The vendor's suffix after the number of a kernel's release."""
QUOTED = re.compile(r'"([^"]+)"')


def machine() -> str:
    """Return one line about this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    model = CPU_MODEL.search(cpuinfo.read_text()) if cpuinfo.exists() else None
    name = model[1] if model else platform.machine()
    memory_gb = psutil.virtual_memory().total / 1e9
    return (
        f"{name}, {os.cpu_count()} cores, {memory_gb:.0f} GB; {platform.system()} {NUMBERED.sub('', platform.release())}; "
        f"Python {platform.python_version()}; Java {java_version() or 'none'}; {first_line('go', 'version') or 'no Go'}"
    )


def versions() -> dict[str, str]:
    """Return the version of each side."""
    kfake = KFAKE_VERSION.search((KFAKE_SOURCE / "go.mod").read_text())
    return {
        KAFKA: VERSION,
        OTTLA: version("ottla"),
        KFAKE: f"franz-go {kfake[2]} of {kfake[1]}" if kfake else "unknown",
        MOCK: confluent_kafka.libversion()[0],
    }


def commit() -> str:
    """Return the newest commit that changed the broker, with `+` for uncommitted changes; `unknown` outside a checkout."""
    found = first_line("git", "log", "-1", "--format=%h", "--", *BROKER)
    return found + ("+" if first_line("git", "status", "--porcelain", "--", *BROKER) else "") if found else "unknown"


def java_version() -> str:
    """Return the version that `java -version` prints on standard error."""
    if not shutil.which("java"):
        return ""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = QUOTED.search(done.stderr)
    return found[1] if found else ""


def first_line(*command: str) -> str:
    """Return the first line of a command's output; empty if the program is missing or fails."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return (done.stdout.splitlines() or [""])[0] if done.returncode == 0 else ""
