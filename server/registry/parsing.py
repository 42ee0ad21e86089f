"""Schemas parsed with all that they reference, in a worker thread; recent ones are kept.

Work on small schemas does not wait for that on large ones: it has a thread of its own, as long as it takes few steps. The smallest
are parsed on Trio's thread, as a thread costs more than they do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ...protocol.schemas import InvalidSchema, Schema, parse_schema
from ...protocol.schemas.values import SHORT_CHARACTERS, NotShortError, short
from .errors import invalid_schema
from .names import qualified
from .records import REFERENCES_MAX, Content, Reference
from .state import Place, State

REFERENCE_DEPTH_MAX = 50
KEPT_MAX, KEPT_CHARACTERS_MAX = 256, 2 << 20
"""Limits of the parsed schemas that are kept."""
AT_ONCE_CHARACTERS, AT_ONCE_STEPS = 1 << 10, 500
"""Limits of a schema that is parsed on Trio's thread: a fraction of a millisecond, and three in the worst case."""

Result = TypeVar("Result")
Reached = dict[Place, Content]
Key = tuple[str, str, bool]
"""Context, digest, and whether the schema is a new one."""
Parsed = dict[Key, tuple[Schema, bool]]
"""Schemas, and whether they have references."""
Parse = Callable[[Content], Schema]


class Parser:
    """Parses schemas of one registry."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Schema] = OrderedDict()
        """Only schemas without references: the number of a deleted version may return with another schema. Changed on Trio's
        thread only."""
        self._kept_characters = 0
        self._loaded_kinds: set[str] = set()
        """Kinds of schemas whose modules a worker thread has loaded."""

    async def run(
        self,
        state: State,
        context: str,
        contents: Sequence[Content],
        work: Callable[[Parse], Result],
        *,
        is_new: bool = False,
    ) -> Result:
        """Run `work(parse)` in a worker thread and return its result. `parse` returns the schema of one of `contents`.

        `parse` raises InvalidSchema for a schema that is invalid. `work` may be called again, so it must change nothing.

        Args:
            is_new: Whether the first of `contents` is checked as a new schema.

        Raises:
            RegistryError: 42201: a schema that the first one references was not found, or too many are referenced.
        """
        from ..runtime.threads import Worker, in_worker  # Commands parse schemas as well, and do not load Trio.

        reached: Reached = {}
        for number, content in enumerate(contents):
            _reach(state, context, content, reached, is_first=number == 0)

        made: Parsed = {}

        def whole(work: Callable[[Parse], Result]) -> Result:
            return work(
                lambda content: self._parse(context, content, reached, made, is_new=is_new and content is contents[0])
            )

        def at_once(work: Callable[[Parse], Result]) -> Result:
            with short():
                return whole(work)

        try:
            if sum(len(each.text) for each in (*contents, *reached.values())) <= SHORT_CHARACTERS:
                with suppress(NotShortError):
                    return await in_worker(at_once, work, Worker.REGISTRY)
            return await in_worker(whole, work, Worker.SCHEMAS)
        finally:
            for key, (each, has_references) in made.items():
                self._loaded_kinds.add(each.kind)
                if not has_references:
                    self._keep(key, each)
            await self._make_room()

    async def at_once(self, context: str, content: Content, *, is_new: bool) -> Schema | None:
        """Return a schema without a worker thread; None if that would take too long. InvalidSchema: it is invalid."""
        kept = self.kept(context, content, is_new=is_new)
        is_small = len(content.text) <= AT_ONCE_CHARACTERS and not content.references
        if kept is not None or not is_small or content.kind not in self._loaded_kinds:
            return kept
        try:
            with short(AT_ONCE_STEPS):
                found = parse_schema(content.kind, content.text, {}, is_new=is_new)
        except NotShortError:
            return None
        self._keep((context, content.guid, is_new), found)
        await self._make_room()
        return found

    def kept(self, context: str, content: Content, *, is_new: bool) -> Schema | None:
        """Return a schema without references that was parsed a short time ago, on any thread."""
        return None if content.references else self._kept.get((context, content.guid, is_new))

    def reached(self, state: State, context: str, content: Content) -> Reached:
        """Return all schemas that a stored one references, directly or not; missing ones are left out. For any thread.

        Raises:
            RegistryError: 42201: too many are referenced.
        """
        found: Reached = {}
        _reach(state, context, content, found, is_first=False)
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
        if key in made:
            return made[key][0]
        if (kept := self.kept(context, content, is_new=is_new)) is not None:
            made[key] = kept, False
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
        made[key] = found, bool(content.references)
        return found

    def _keep(self, key: Key, found: Schema) -> None:
        before = self._kept.pop(key, None)
        self._kept_characters += len(found.text) - (0 if before is None else len(before.text))
        self._kept[key] = found

    async def _make_room(self) -> None:
        """Forget the oldest schemas beyond the limits, in time slices: a large one may replace all, which takes long to free.

        The next call continues if this one is cancelled.
        """
        from ..runtime.time_slices import TimeSlice

        time_slice = TimeSlice()
        while len(self._kept) > 1 and (len(self._kept) > KEPT_MAX or self._kept_characters > KEPT_CHARACTERS_MAX):
            self._kept_characters -= len(self._kept.popitem(last=False)[1].text)
            if time_slice.is_over():
                await time_slice.next()


def _reach(state: State, context: str, content: Content, reached: Reached, *, is_first: bool) -> None:
    """Add all schemas that `content` references, directly or not, to `reached`. Those of the first one must exist."""
    todo = [content]
    while todo:
        each = todo.pop()
        for reference in each.references:
            place = _place(reference, context)
            if place in reached:
                continue
            version = state.subjects.get(place[0], {}).get(place[1])
            if version is None:
                if is_first and each is content:
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
