"""Keys and values as JSON, decoded with the schemas that their bytes name.

A decoder is for one thread, and for people who look at a limited number of records.
"""

from __future__ import annotations

import math

from ....protocol.schemas.frames import Decoded, Frame, Part
from ....protocol.schemas.plain_json import MAX_STEPS, NotDecodable
from ....protocol.schemas.reading import CHARACTERS_PER_STEP, Read, json_of, read_text, reader_of
from ....protocol.schemas.values import Budget, InvalidSchema, SchemaTooLarge
from ..errors import RegistryError
from ..names import DEFAULT_CONTEXT, bare_name
from ..parsing import Parser
from ..records import Content
from ..state import State

READERS_MAX, READERS_CHARACTERS_MAX = 64, 4 << 20
"""Limits of the schemas for which a decoder keeps what it has parsed."""
LOOK_UPS_PER_STEP = 5
"""Contexts, and versions with one id, whose look-up costs one step."""
NEAR_IDS = 1_000
"""An unknown id so far above the largest one may be that of another registry's schema; a larger one is rather not an id."""
NUMBER_BYTES = 8
TOO_MANY = "not decoded, as the values before it took too long; read fewer at once"


class Decoder:
    """See the module.

    Args:
        parser: The registry's parser, or a new one.
        steps: What all values may cost together; each has the limit `MAX_STEPS` as well.
    """

    def __init__(self, parser: Parser, steps: float = math.inf) -> None:
        self._parser = parser
        self._left = steps
        self._readers: dict[tuple[str, ...], Read] = {}
        self._characters = 0

    def decode(self, state: State, topic: str, part: Part, frame: Frame) -> Decoded | None:
        """Return the key or value of a frame as JSON, or the reason why not; None if its bytes only look like a frame."""
        name = str(frame.schema)
        if self._left <= 0:
            is_known = isinstance(frame.schema, str) or frame.schema <= state.last_id
            return Decoded(name, None, TOO_MANY) if is_known or _names_schema(state, frame) else None
        limit = int(min(MAX_STEPS, self._left))
        budget = Budget(limit)
        try:
            text = self._text(state, topic, part, frame, budget)
            return None if text is None else Decoded(name, text, None)
        except (NotDecodable, InvalidSchema, RegistryError, RecursionError) as error:
            return Decoded(name, None, str(error))
        except SchemaTooLarge:
            if limit < MAX_STEPS:
                return Decoded(name, None, TOO_MANY)
            return Decoded(name, None, f"too large to be decoded (limit {MAX_STEPS} steps)")
        finally:
            self._left -= limit - budget.left

    def _text(self, state: State, topic: str, part: Part, frame: Frame, budget: Budget) -> str | None:
        found = _content_of(state, topic, part, frame, budget)
        if found is None:
            if not _names_schema(state, frame):
                return None
            raise NotDecodable("not found in the schema registry")
        return json_of(frame, self._reader(state, *found, budget), budget)

    def _reader(self, state: State, context: str, content: Content, budget: Budget) -> Read:
        if content.kind == "JSON":
            return read_text
        reached = self._parser.reached(state, context, content)
        budget.spend(len(reached))
        key = (context, content.guid, *(each.guid for each in reached.values()))
        found = self._readers.get(key)
        if found is None:
            characters = len(content.text) + sum(len(each.text) for each in reached.values())
            budget.spend(characters // CHARACTERS_PER_STEP)
            schema = self._parser.stored(context, content, reached)
            found = reader_of(schema)
            self._characters += characters
            if len(self._readers) == READERS_MAX or self._characters > READERS_CHARACTERS_MAX:
                self._readers.clear()
                self._characters = characters
            self._readers[key] = found
        return found


def _names_schema(state: State, frame: Frame) -> bool:
    """Return whether a frame without a known schema is one: other bytes begin with a zero byte as well, e.g. most numbers."""
    if isinstance(frame.schema, str) or frame.data is not None:  # a header says so
        return True
    return len(frame.head) != NUMBER_BYTES and frame.schema <= state.last_id + NEAR_IDS


def _content_of(state: State, topic: str, part: Part, frame: Frame, budget: Budget) -> tuple[str, Content] | None:
    """Return the context and the schema that a frame names; None if it is not there.

    Several contexts may have one id. That of a version of the topic's subject is meant, else the one without context.
    """
    contexts = list(state.contexts.items())
    budget.spend(len(contexts) // LOOK_UPS_PER_STEP)
    if isinstance(frame.schema, str):
        for name, each in contexts:
            schema_id = each.ids.get(frame.schema)
            if schema_id is not None and (content := each.contents.get(schema_id)) is not None:
                return name, content
        return None
    subject = f"{topic}-{part}"
    for name, each in contexts:
        content = each.contents.get(frame.schema)
        if name != DEFAULT_CONTEXT and content is not None:
            places = list(each.places.get(frame.schema, ()))
            budget.spend(len(places) // LOOK_UPS_PER_STEP)
            if any(bare_name(place[0]) == subject for place in places):
                return name, content
    content = state.content(DEFAULT_CONTEXT, frame.schema)
    return None if content is None else (DEFAULT_CONTEXT, content)
