"""Keys and values of a broker's own records, decoded with the schemas of its registry."""

from __future__ import annotations

from collections.abc import Sequence

from ....protocol.schemas.frames import Decoded, Frame, Frames
from ....protocol.schemas.plain_json import MAX_STEPS
from ...broker.broker import Broker
from ...runtime.threads import Worker, in_worker
from ..errors import RegistryError
from ..registry import registry_of
from .decoder import Decoder

MAX_STEPS_AT_ONCE = 2 * MAX_STEPS
"""Steps of all values of a call: about a second."""
Shown = tuple[Decoded | None, Decoded | None]


async def decode_frames(broker: Broker, topic: str, frames: Sequence[Frames]) -> list[Shown]:
    """Return keys and values as JSON, or the reasons why not. All of them together have a limit."""
    registry = registry_of(broker)
    try:
        state = await registry.state()
    except RegistryError as error:
        reason = str(error)
        return [(_refused(key, reason), _refused(value, reason)) for key, value in frames]
    decoder = Decoder(registry.parser, MAX_STEPS_AT_ONCE)

    def decode_all(frames: Sequence[Frames]) -> list[Shown]:
        return [
            (
                None if key is None else decoder.decode(state, topic, "key", key),
                None if value is None else decoder.decode(state, topic, "value", value),
            )
            for key, value in frames
        ]

    return await in_worker(decode_all, frames, Worker.RECORDS)


def _refused(frame: Frame | None, reason: str) -> Decoded | None:
    return None if frame is None else Decoded(str(frame.schema), None, reason)
