"""Records of a topic of any cluster, decoded with the schemas in its topic `_schemas`: for programs that read over Kafka's protocol.

So neither the registry's address nor its password is needed, and a registry of Confluent is read as well as that of this broker.
The code of the registry is loaded with the first key or value that names a schema.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.schemas.frames import Decoded, Part, frame_of
from ...client.kafka import Kafka
from ...client.values import Record

if TYPE_CHECKING:
    from ..state import State
    from .decoder import Decoder

RESTS_PER_TRY = 10
"""Time for which a cluster whose schemas could not be read is not asked for them again, in times of what that took: a topic without
leader takes the whole limit of the client, one beyond the limits of a registry is read up to there."""


class ClusterSchemas:
    """Decodes records of a cluster, with a client that one thread uses.

    Args:
        offsets_max: The number of offsets of `_schemas` that are read at most; None for no limit but that of the registry.
        steps: What all values may cost together, as `Decoder` counts.
        elapsed_s: Returns a time that never goes back.
    """

    def __init__(
        self,
        kafka: Kafka,
        *,
        offsets_max: int | None = None,
        steps: float = math.inf,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka, self._elapsed_s = kafka, elapsed_s
        self._offsets_max, self._steps = offsets_max, steps
        self._state: State | None = None
        """None: the cluster has no schemas, or they cannot be read."""
        self._decoder: Decoder | None = None
        self._topic_id = b""
        self._next_offset = 0
        self._is_current = False
        self._next_try_s = -math.inf
        self._failure: str | None = None
        """Why `_schemas` could not be read."""

    def expire(self) -> None:
        """Have new records of `_schemas` read before the next value is decoded: it may have been written since.

        If they could not be read, that is not tried again for `RESTS_PER_TRY` times as long as it took.
        """
        self._is_current = False

    def decoded(self, record: Record, part: Part) -> Decoded | None:
        """Return the key or the value of a record as JSON, or the reason why not; None if it names no schema of the cluster."""
        frame = frame_of(part, record.key if part == "key" else record.value, record.headers)
        if frame is None:
            return None
        if not self._is_current and self._elapsed_s() >= self._next_try_s:
            self._catch_up()
        if self._failure is not None:
            return Decoded(str(frame.schema), None, self._failure)
        if self._state is None or self._decoder is None:
            return None
        return self._decoder.decode(self._state, record.topic, part, frame)

    def _catch_up(self) -> None:
        from ..errors import RegistryError

        self._is_current, self._failure, begin_s = True, None, self._elapsed_s()
        try:
            self._state = self._read(self._state)
        except KafkaError as error:
            self._state = None
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._failure = f"_schemas cannot be read: {error.message or error.code.name}"
        except (RegistryError, ProtocolError, OSError) as error:
            self._state, self._failure = None, f"_schemas cannot be read: {error}"
        if self._state is None:
            end_s = self._elapsed_s()
            self._next_try_s = end_s + RESTS_PER_TRY * (end_s - begin_s)

    def _read(self, state: State | None) -> State:
        """Return a state with all records of the topic that are there now; that of the last time is continued."""
        from ..errors import RegistryError
        from ..parsing import Parser
        from ..records import SCHEMAS_TOPIC, UnreadableRecordError, parse_record
        from ..state import State
        from .decoder import Decoder

        topic_id, at = self._kafka.topic(SCHEMAS_TOPIC).topic_id, self._kafka.offsets(SCHEMAS_TOPIC)[0]
        if state is None or topic_id != self._topic_id or at.end < self._next_offset:
            state, self._decoder = State(), Decoder(Parser(), self._steps)
            self._topic_id, self._next_offset = topic_id, 0
        start = max(at.start, self._next_offset)
        if self._offsets_max is not None and at.end - start > self._offsets_max:
            raise RegistryError(500, 50001, f"too many offsets ({at.end - start}, limit {self._offsets_max})")
        for record in self._kafka.scan(SCHEMAS_TOPIC, 0, start=start, end=at.end):
            try:
                entry = parse_record(record.key, record.value)
            except (UnreadableRecordError, RegistryError):  # as the registry does
                continue
            if entry is not None:
                for _ in state.apply(entry):
                    pass
        self._next_offset = at.end
        return state
