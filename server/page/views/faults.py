"""Faults, and the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of

from ....protocol.apis import APIS
from ....protocol.errors import ErrorCode
from ...broker.broker import Broker
from ...control.clock import read
from ...control.faults import list_faults
from ...faults.declaration import Declaration
from ..section import ROWS_MAX, Page, Row, Section

CLOCK_STEP_MS = 1_000
"""Resolution of the shown clock: a watched page is made once a second."""


@dataclass(frozen=True, slots=True)
class ClockView:
    now_ms: int
    is_frozen: bool


@dataclass(frozen=True, slots=True)
class FaultRow:
    fault_id: int
    hits: int
    left: int | None
    is_active: bool
    words: str
    """The declaration in the format of `--fault`."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Valid values for a new fault."""

    apis: tuple[str, ...]
    errors: tuple[str, ...]


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page; see the module."""
    clock = read(broker)
    now_ms = clock.now_ms if clock.is_frozen else clock.now_ms // CLOCK_STEP_MS * CLOCK_STEP_MS
    faults = (await list_faults(broker)).faults
    rows = tuple(
        Row(
            f"fault-{each.fault_id}",
            FaultRow(each.fault_id, each.hits, each.left, each.is_active, _words(each.declaration)),
        )
        for each in faults[:ROWS_MAX]
    )
    return Page(
        "Faults and clock",
        "/faults",
        (
            Section("clock", "clock", ClockView(now_ms, clock.is_frozen)),
            Section("move", "move_clock", clock.is_frozen),
            Section("faults", "faults", len(faults), rows),
            Section("declare", "declare_fault", CHOICES),
            Section("runs", "runs", None),
        ),
    )


def _words(declaration: Declaration) -> str:
    said = ((field.name, getattr(declaration, field.name), field.default) for field in fields_of(declaration))
    return ", ".join(f"{name} {value}" for name, value, default in said if value != default and value is not None)


CHOICES = Choices(
    tuple(sorted(api.name for api in APIS.values())),
    tuple(sorted(error.name for error in ErrorCode if error is not ErrorCode.NONE)),
)
