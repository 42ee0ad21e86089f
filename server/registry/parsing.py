"""Schemas parsed with all that they reference, in a worker thread; recent ones are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from .errors import invalid_schema
from .names import qualified
from .records import REFERENCES_MAX, Content, Reference
from .schemas import InvalidSchema, Schema, parse_schema
from .state import Place, State

REFERENCE_DEPTH_MAX = 50
KEPT_MAX, KEPT_CHARACTERS_MAX = 256, 2 << 20
"""Limits of the parsed schemas that are kept."""

Result = TypeVar("Result")
Reached = dict[Place, Content]
Key = tuple[str, str, bool]
"""Context, digest, and whether the schema is a new one."""
Parsed = dict[Key, Schema]
Parse = Callable[[Content], Schema]


class Parser:
    """Parses schemas of one registry."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Schema] = OrderedDict()
        """Only schemas without references: the number of a deleted version may return with another schema. Only `in_worker`
        changes it, whose calls run one at a time."""
        self._kept_characters = 0

    async def run(
        self, state: State, context: str, contents: Sequence[Content], work: Callable[[Parse], Result]
    ) -> Result:
        """Run `work(parse)` in a worker thread and return its result. `parse` returns the schema of one of `contents`.

        `parse` raises InvalidSchema for a schema that is invalid. The first of `contents` is a new one.

        Raises:
            RegistryError: 42201: a schema that the new one references was not found, or too many are referenced.
        """
        from ..runtime.threads import in_worker  # Commands parse schemas as well, and do not load Trio.

        reached: Reached = {}
        for number, content in enumerate(contents):
            _reach(state, context, content, reached, is_new=number == 0)

        def in_thread(work: Callable[[Parse], Result]) -> Result:
            made: Parsed = {}
            return work(lambda content: self._parse(context, content, reached, made, is_new=content is contents[0]))

        return await in_worker(in_thread, work)

    def kept(self, context: str, content: Content) -> Schema | None:
        """Return a new schema without references that was parsed a short time ago, on any thread."""
        return None if content.references else self._kept.get((context, content.guid, True))

    def reached(self, state: State, context: str, content: Content) -> Reached:
        """Return all schemas that a stored one references, directly or not; missing ones are left out. For any thread.

        Raises:
            RegistryError: 42201: too many are referenced.
        """
        found: Reached = {}
        _reach(state, context, content, found, is_new=False)
        return found

    def stored(self, context: str, content: Content, reached: Reached) -> Schema:
        """Return a stored schema, in a worker thread. InvalidSchema: it, or one that it references, is invalid or missing."""
        return self._parse(context, content, reached, {})

    def _parse(
        self,
        context: str,
        content: Content,
        reached: Reached,
        made: Parsed,
        path: frozenset[Place] = frozenset(),
        *,
        is_new: bool = False,
    ) -> Schema:
        key = (context, content.guid, is_new)
        if content.references:
            if key in made:
                return made[key]
        elif (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        if len(path) > REFERENCE_DEPTH_MAX:
            raise InvalidSchema(f"references: nested too deeply (limit {REFERENCE_DEPTH_MAX} levels)")
        references = {}
        for reference in content.references:
            place = _place(reference, context)
            if place in path:
                raise InvalidSchema(f"references: {reference.subject} version {reference.version} references itself")
            if place not in reached:
                raise InvalidSchema(_not_found(reference))
            references[reference.name] = self._parse(context, reached[place], reached, made, path | {place})
        found = parse_schema(content.kind, content.text, references, is_new=is_new)
        if content.references:
            made[key] = found
        else:
            self._keep(key, found)
        return found

    def _keep(self, key: Key, found: Schema) -> None:
        self._kept[key] = found
        self._kept_characters += len(found.text)
        while len(self._kept) > 1 and (len(self._kept) > KEPT_MAX or self._kept_characters > KEPT_CHARACTERS_MAX):
            _, oldest = self._kept.popitem(last=False)
            self._kept_characters -= len(oldest.text)


def _reach(state: State, context: str, content: Content, reached: Reached, *, is_new: bool) -> None:
    """Add all schemas that `content` references, directly or not, to `reached`."""
    todo = [content]
    while todo:
        each = todo.pop()
        for reference in each.references:
            place = _place(reference, context)
            if place in reached:
                continue
            version = state.subjects.get(place[0], {}).get(place[1])
            if version is None:
                if is_new and each is content:
                    raise invalid_schema(_not_found(reference))
                continue
            if len(reached) == REFERENCES_MAX:
                raise invalid_schema(f"references: too many schemas are reached (limit {REFERENCES_MAX})")
            reached[place] = version.content
            todo.append(version.content)


def _place(reference: Reference, context: str) -> Place:
    return qualified(reference.subject, context), reference.version


def _not_found(reference: Reference) -> str:
    return f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
