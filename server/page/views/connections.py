"""Connected clients, and the broker's log."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...broker.broker import Broker
from ...control.connections import list_connections
from ...runtime.errors import ControlError, Kind
from ..log_tail import last_lines
from ..section import Page, Row, Section

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of connected clients."""
    found = await list_connections(broker)
    rows = tuple(Row(f"connection-{each.node}-{each.listener}-{each.peer}", each) for each in found.connections)
    return Page("Connections", "/connections", (Section("connections", "connections", found.count, rows),))


async def log(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of log lines with the level in the field `level` or above."""
    level = fields.get("level", "info")
    if level not in LEVELS:
        raise ControlError(Kind.INVALID, f"level: expected {', '.join(LEVELS)}, found {level!r:.40}")
    rows = tuple(Row(f"line-{line.number}", line) for line in last_lines(LEVELS[level]))
    return Page("Log", "/log", (Section("lines", "lines", (level, tuple(LEVELS)), rows),))
