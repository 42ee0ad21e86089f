"""Lines on the standard input of `ottla serve`: `stop ID` and `start ID`.

Each is answered on standard output once it is done, `stopped ID` or `started ID`; what cannot be done gets one line on
standard error. The end of standard input means nothing.
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
from ..broker.lives import Lives
from ..runtime.errors import ControlError

log = logging.getLogger("ottla.nodes")

STANDARD_INPUT = 0
# Longer lines are none of ours, and are not kept.
MAX_LINE_BYTES = 1024

_DONE = {"stop": "stopped", "start": "started"}
_ORDER = re.compile(r"(stop|start) ([0-9]{1,10})")


async def obey(lives: Lives) -> None:
    """Do what the lines say, one after the other, until standard input ends."""
    async for line in _lines():
        order = _ORDER.fullmatch(line)
        if order is None:
            log.warning("standard input: expected 'stop ID' or 'start ID', found %r", line)
            continue
        verb, node_id = order[1], int(order[2])
        try:
            await lives.call(Broker.stop_node if verb == "stop" else Broker.start_node, node_id)
        except (ControlError, OSError, KafkaError) as error:
            log.warning("standard input: cannot %s node %d: %s", verb, node_id, error)
            continue
        with suppress(BrokenPipeError):  # nobody wants to know
            print(f"{_DONE[verb]} {node_id}", flush=True)


async def _lines() -> AsyncIterator[str]:
    """The lines of standard input that are not blank, without what is too long of them.

    Read in a thread that is left alone at the end: making a terminal non-blocking would be felt by its other programs.
    """
    if sys.stdin is None:
        return  # closed before we started: by now the descriptor may be any file's or client's
    pending = b""
    while True:
        try:
            data = await trio.to_thread.run_sync(os.read, STANDARD_INPUT, MAX_LINE_BYTES, abandon_on_cancel=True)
        except OSError:  # closed, or a terminal that is another program's at the moment
            return
        if not data:
            return
        *ended, pending = (pending + data).split(b"\n")
        pending = pending[:MAX_LINE_BYTES]
        for line in ended:
            text = line[:MAX_LINE_BYTES].decode(errors="replace").strip()
            if text:
                yield text
