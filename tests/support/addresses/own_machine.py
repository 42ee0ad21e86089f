"""A machine of a test's own: network and hosts file, in Linux namespaces. Nothing outside them changes.

    with IPv6        lo has 127.0.0.1 and ::1
    IPv6 off         lo has 127.0.0.1 alone; IPv6 sockets can be created (`net.ipv6.conf.all.disable_ipv6`)

A script runs on it, and prints what the test compares.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

HOSTS = """\
::1 localhost
127.0.0.1 localhost
::1 both.test
127.0.0.1 both.test
::1 six.test
"""
"""A hosts file as most systems have it: ::1 comes first."""

_SETUP = """\
set -e
mount --bind "$1" /etc/hosts
if [ "$2" = off ]; then echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; fi
shift 2
exec "$@"
"""
_UP = """\
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    SIOCSIFFLAGS, UP = 0x8914, 0x1
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", UP))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
PATIENCE_S = 120
TESTS = Path(__file__).parents[2]


def run_on_own_machine(folder: Path, *words: str, ipv6: bool, hosts: str = HOSTS) -> str:
    """Run `python WORDS…` on such a machine and return what it prints.

    Skips the test, with the reason, where the system does not allow such a machine.

    Raises:
        AssertionError: The command failed; the message is its error output.
    """
    if (why_not := _why_not(ipv6=ipv6)) is not None:
        pytest.skip(f"needs a network namespace of its own: {why_not}")
    done = _run(folder, *words, ipv6=ipv6, hosts=hosts)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(folder: Path, *words: str, ipv6: bool, hosts: str) -> subprocess.CompletedProcess[str]:
    path = folder / "hosts"
    path.write_text(hosts)
    python = [sys.executable, "-c", _UP, *words]
    line = ["unshare", "-rmn", "sh", "-c", _SETUP, "sh", str(path), "on" if ipv6 else "off", *python]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=TESTS)


@cache
def _why_not(*, ipv6: bool) -> str | None:
    """Return why the system does not allow such a machine, or creates a different one; None if it does."""
    look = "import socket; print(sorted({each[4][0] for each in socket.getaddrinfo('both.test', 1)}))"
    own = "import socket; socket.socket(socket.AF_INET6).bind(('::1', 0))"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = _run(Path(folder), "-c", look, ipv6=ipv6, hosts=HOSTS)
            bound = _run(Path(folder), "-c", own, ipv6=ipv6, hosts=HOSTS)
        except OSError as error:
            return str(error)
    if done.returncode or "127.0.0.1" not in done.stdout:
        return (done.stderr or done.stdout).strip().splitlines()[-1]
    if (bound.returncode == 0) != ipv6:
        return f"::1 {'cannot be bound' if ipv6 else 'can be bound'} there"
    return None
