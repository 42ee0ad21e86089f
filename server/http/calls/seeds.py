"""Seeds: see `..control.seed`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import trio

from ...control.operation import Length, Name
from ...control.seed.export import export
from ...control.seed.fields import SEED_BYTES_MAX
from ...control.seed.planting import Planted, plant
from ...control.seed.seed import seed_of_text
from ...runtime.worker import in_worker
from ..call import Call, Lives, Nothing, Text


@dataclass(frozen=True, slots=True)
class SeedRequest:
    text: Annotated[str, Length(0, SEED_BYTES_MAX)]
    """A seed in YAML or JSON."""
    name: Name = "seed"
    """What messages call it: its file, say."""
    unless_there: bool = False
    """Do nothing, and refuse nothing, if one of its topics or groups is there."""


async def planted(lives: Lives, request: SeedRequest) -> Planted:
    seeds = [await in_worker(lambda text: seed_of_text(text, request.name), request.text)]
    try:
        return await plant(lives.broker, seeds[0], unless_there=request.unless_there)
    finally:
        with trio.CancelScope(shield=True):
            await in_worker(list.clear, seeds)  # its fields may be hundreds of thousands


async def exported(lives: Lives, _: Nothing) -> Text:
    found = await export(lives.broker)
    return Text(await in_worker(lambda seed: json.dumps(seed, indent=2) + "\n", found))


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET", "/v1/seed", "Topics and their configs, as a seed; no records.", Nothing, Text, exported, only_waits=True
    ),
    Call(
        "POST",
        "/v1/seed",
        "Make topics, records, committed offsets and hard cases: all that a seed says, or nothing.",
        SeedRequest,
        Planted,
        planted,
        statuses=(404, 409),
    ),
)
