"""A process that sends ApiVersions to a broker every few milliseconds, and reports how long each answer took.

    python pinger.py HOST PORT PID INTERVAL_MS

It shares no interpreter with the broker, runs at real-time priority if allowed, and imports only the standard library. It
writes records (`RECORD`) to standard output: pings, and stalls of the machine, which a second thread sees that only sleeps. A
ping's `waited_s` is how long the serving thread was ready to run during it while programs other than the broker had the
processors; 0 if the system does not report that.
"""

import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress

RECORD = struct.Struct("<cddd")
"""Kind, from, to (seconds of the monotonic clock of all processes), waited_s."""
PING, STALL = b"p", b"s"
OUTPUT = 1
PRIORITY, NICE = 10, -20
CONTROL_S, LATE_S = 0.002, 0.001

_API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)
REQUEST = struct.pack(">i", len(_API_VERSIONS_V0)) + _API_VERSIONS_V0


class Processors:
    """The processor time that a process, and its first thread, have used."""

    def __init__(self, pid: int) -> None:
        self._clock = (~pid << 3) | 2  # the CPU clock of a whole process (clock_getcpuclockid)
        self._file = -1
        with suppress(OSError):
            time.clock_gettime(self._clock)
            self._file = os.open(f"/proc/{pid}/task/{pid}/schedstat", os.O_RDONLY)

    def read(self) -> tuple[float, float, float]:
        """Return seconds that the first thread ran, that it was ready and did not run, and that all threads ran."""
        if self._file < 0:
            return 0.0, 0.0, 0.0
        ran, ready, _ = os.pread(self._file, 100, 0).split()
        return int(ran) / 1e9, int(ready) / 1e9, time.clock_gettime(self._clock)


def waited_for_others(before: tuple[float, float, float], after: tuple[float, float, float]) -> float:
    """Return the part of the first thread's wait for a processor that its own process cannot be the cause of."""
    ran, ready, all_ran = (late - early for early, late in zip(before, after, strict=True))
    return max(0.0, ready - (all_ran - ran))


def raise_priority() -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def tell_stalls() -> None:
    while True:
        due_s = time.monotonic() + CONTROL_S
        time.sleep(CONTROL_S)
        if (woken_s := time.monotonic()) - due_s > LATE_S:
            os.write(OUTPUT, RECORD.pack(STALL, due_s, woken_s, 0.0))


def read_frame(connection: socket.socket) -> None:
    left, head = 4, b""
    while left:
        data = connection.recv(left)
        if not data:
            raise ConnectionError("the broker closed the connection")
        left -= len(data)
        if len(head) < 4 and len(head := head + data) == 4:
            left = struct.unpack(">i", head)[0]


def main(host: str, port: str, pid: str, interval_ms: str) -> None:
    connection = socket.create_connection((host, int(port)), 30)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raise_priority()
    threading.Thread(target=tell_stalls, daemon=True).start()
    processors, interval_s = Processors(int(pid)), float(interval_ms) / 1000
    due_s = time.monotonic()
    while True:
        before = processors.read()
        sent_s = time.monotonic()
        connection.sendall(REQUEST)
        read_frame(connection)
        answered_s = time.monotonic()
        waited_s = waited_for_others(before, processors.read())
        os.write(OUTPUT, RECORD.pack(PING, sent_s, answered_s, waited_s))
        due_s = max(due_s + interval_s, answered_s)
        time.sleep(max(0.0, due_s - time.monotonic()))


if __name__ == "__main__":
    with suppress(OSError):  # the broker, or the suite, has ended
        main(*sys.argv[1:])
