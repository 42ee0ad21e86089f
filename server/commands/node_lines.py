"""Lines on the standard input of `ottla serve`: `stop ID` and `start ID`.

Each is answered on standard output once it is done, `stopped ID` or `started ID`; an error gets one line on standard
error. The end of standard input is ignored.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import trio

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..broker.supervisor import Supervisor
from ..runtime.errors import ControlError

log = logging.getLogger("ottla.nodes")

STANDARD_INPUT = 0
# Longer lines are not commands, and are not kept.
MAX_LINE_BYTES = 1024

_DONE = {"stop": "stopped", "start": "started"}
_ORDER = re.compile(r"(stop|start) ([0-9]{1,10})")


async def run_commands(supervisor: Supervisor) -> None:
    """Run the commands in the lines, one after the other, until standard input ends."""
    async for line in _lines():
        order = _ORDER.fullmatch(line)
        if order is None:
            log.warning("standard input: expected 'stop ID' or 'start ID', found %r", line)
            continue
        verb, node_id = order[1], int(order[2])
        try:
            await supervisor.call(Broker.stop_node if verb == "stop" else Broker.start_node, node_id)
        except (ControlError, OSError, KafkaError) as error:
            log.warning("standard input: cannot %s node %d: %s", verb, node_id, error)
            continue
        with suppress(BrokenPipeError):  # the reader has closed the pipe
            print(f"{_DONE[verb]} {node_id}", flush=True)


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of standard input that are not blank; long lines are cut.

    They are read in a thread that is abandoned at the end: a non-blocking terminal would affect its other programs.
    """
    if sys.stdin is None:
        return  # closed before the start: by now the descriptor may be that of any file or client
    pending = b""
    while True:
        try:
            data = await trio.to_thread.run_sync(os.read, STANDARD_INPUT, MAX_LINE_BYTES, abandon_on_cancel=True)
        except OSError:  # closed, or a terminal that another program has in the foreground
            return
        if not data:
            return
        *ended, pending = (pending + data).split(b"\n")
        pending = pending[:MAX_LINE_BYTES]
        for line in ended:
            text = line[:MAX_LINE_BYTES].decode(errors="replace").strip()
            if text:
                yield text
