"""The registry of a broker's run: registers, looks up, compares and deletes schemas, and sets levels and modes.

One write at a time. A write is decided on the state, written to `_schemas`, and then part of the state; nothing else is kept.
A new version is parsed and compared before its turn, so that other subjects need not wait for large schemas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import is_
from typing import TypeVar
from weakref import WeakValueDictionary

import trio

from ...protocol.schemas import InvalidSchema, Schema
from ..broker.broker import Broker
from ..runtime.threads import Worker, in_worker
from ..runtime.time_slices import TimeSlice
from . import errors
from .errors import RegistryError
from .names import bare_name, context_of, normalized
from .options import (
    LENIENT,
    NUMBER_OF_VERSION,
    check_options,
    merged_metadata,
    merged_rules,
    numbered,
    property_of,
    reserved_fields,
)
from .parsing import Parse, Parser
from .records import (
    INT32_MAX,
    Content,
    Json,
    Pair,
    Reference,
    Version,
    clear_subject_record,
    config_record,
    content_of,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from .schemas import find_incompatibilities
from .schemas.field_names import check_names, find_conflicts
from .state import IMPORT, MODES, READONLY, READONLY_OVERRIDE, READWRITE, Place, State, reference_places
from .topic import SchemasTopic

LATEST = -1
"""The newest version that is not deleted."""
COMPARED_MAX = 1_000
"""Maximum number of older versions that a new one is compared with."""
COMPARED_CHARACTERS = 256 << 10
"""Size of the older versions that are compared in one go; then it is another request's turn."""
AT_ONCE_BYTES = 16 << 10
"""Maximum size of a known schema, with its metadata and rules, whose digest is computed on Trio's thread: well below a millisecond."""
TOMBSTONES_MAX = 100
"""Maximum number of versions that are deleted in one batch, so that it fits into the topic."""
FOREIGN_MAX = 10
"""Number of a subject's newest versions that are parsed to find an equal schema, which another registry may have stored in another
layout."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema as a client sent it."""

    content: Content
    """The text may have any layout, and a reference may be to `LATEST`. An empty text is that of the newest version."""
    normalize: bool = False
    id: int | None = None
    """Id that it must get; only in mode IMPORT."""
    version: int | None = None
    """Number that it must get, even if a version has this schema; LATEST for the next number, whatever that is."""
    force: bool = False
    """Whether it may be incompatible."""


class Registry:
    """See the module. On Trio's thread; every method may raise a RegistryError."""

    def __init__(self, broker: Broker) -> None:
        self.topic = SchemasTopic(broker)
        self.parser = Parser()
        self._writing = trio.Lock()
        self._registering: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        """Locks of subjects that get a new version; held around `_writing`, never inside it."""

    async def state(self) -> State:
        """Return the present state."""
        return await self.topic.current()

    # Schemas

    async def register(self, subject: str, new: NewSchema) -> Version:
        """Return the version of a subject with this schema: a present one that is equal, or a new one.

        Raises:
            RegistryError: 42201: it is invalid; 409: it is incompatible; 42205: the mode does not allow it.
        """
        async with self._alone(subject):
            made = None
            while made is None:
                state = await self.topic.settled()
                _check_may_register(state, subject, new)
                wanted = new if new.id is not None else await _populated(state, subject, new)
                is_checked = new.id is None and state.config(subject).get("validateNewSchemas") is not False
                found = await self._find(state, subject, wanted, deleted=False, is_new=is_checked)
                if isinstance(found, Version) and new.id in (None, found.id) and new.version in (None, found.version):
                    return found
                content = found.content if isinstance(found, Version) else found
                decided_on = _grounds(state, subject, content)
                if new.id is None and not new.force:
                    await self._check_compatible(state, subject, content)
                async with self._writing:
                    state = await self.topic.settled()
                    if all(map(is_, decided_on, _grounds(state, subject, content))):
                        made = await self._write(state, subject, content, new)
            return made

    async def _write(self, state: State, subject: str, content: Content, new: NewSchema) -> Version:
        _check_may_register(state, subject, new)
        made = _new_version(state, subject, content, new)
        state.check_room(made)
        replaced = [
            each
            for each in state.subjects.get(subject, {}).values()
            if each.is_deleted and each.id == made.id and each.place not in state.referrers
        ]
        await self.topic.append(
            lambda: [
                schema_record(made),
                *(schema_tombstone(*each.place) for each in replaced if each.version != made.version),
            ]
        )
        return made

    @asynccontextmanager
    async def _alone(self, subject: str) -> AsyncIterator[None]:
        """Keep other writes to the subject's versions waiting in the block."""
        lock = self._registering.get(subject)
        if lock is None:
            lock = self._registering[subject] = trio.Lock()
        async with lock:
            yield

    async def look_up(self, subject: str, new: NewSchema, *, deleted: bool) -> Version:
        """Return the version of a subject that has this schema. RegistryError: 40401, 40403."""
        state, new = await self.state(), new if new.version is None else replace(new, version=None)
        if not state.has_subject(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        found = await self._find(state, subject, new, deleted=deleted)
        if isinstance(found, Content) and state.has_subject(subject, deleted=False):
            populated = await _populated(state, subject, new)
            if populated is not new:
                found = await self._find(state, subject, populated, deleted=deleted)
        if isinstance(found, Content):
            raise errors.schema_not_found()
        return found

    async def _find(
        self, state: State, subject: str, new: NewSchema, *, deleted: bool, is_new: bool = False
    ) -> Version | Content:
        """Return the newest version of a subject that has this schema; without one the schema, in the form that is stored."""
        sent = _resolved(state, subject, new.content)
        config = state.config(subject)
        normalize = new.normalize or config.get("normalize") is True
        are_names_checked = new.id is None and config.get("validateFields") is True
        if not (normalize or are_names_checked):  # Clients send the text as it is stored, or in another layout.
            known = _same(state, subject, sent, deleted=deleted)
            if known is not None:
                return known

        def stored(parse: Parse) -> Content:
            schema = parse(sent)
            if are_names_checked:
                check_names(schema)
            text = _text(schema, normalize)
            if text == sent.text:
                return sent
            return content_of(sent.kind, text, sent.references, sent.metadata, sent.rule_set)

        schema = None
        if sent.size_bytes <= AT_ONCE_BYTES and not are_names_checked:
            with _named_error():
                schema = await self.parser.at_once(context_of(subject), sent, is_new=is_new)
        if schema is None:
            content = await self._parsed(state, context_of(subject), [sent], stored, is_new=is_new)
        else:
            content = stored(lambda _: schema)
        known = _same(state, subject, content, deleted=deleted)
        if known is not None:
            return known
        newest = list(islice(_newest_first(state, subject, deleted=deleted), FOREIGN_MAX if new.version is None else 0))

        def among(versions: list[Version]) -> list[Version]:
            return [each for each in versions if _differs_only_in_text(each.content, content)]

        is_small = content.size_bytes <= AT_ONCE_BYTES
        alike = among(newest) if is_small else await in_worker(among, newest, Worker.REGISTRY)

        def find(parse: Parse) -> Version | Content:
            for each in alike:
                with suppress(InvalidSchema):
                    if _text(parse(each.content), normalize) == content.text:
                        return each
            return content

        contents = [sent, *(each.content for each in alike)]
        return await self._parsed(state, context_of(subject), contents, find, is_new=is_new) if alike else content

    async def _parsed(
        self,
        state: State,
        context: str,
        contents: list[Content],
        work: Callable[[Parse], Result],
        *,
        is_new: bool = False,
    ) -> Result:
        with _named_error():
            return await self.parser.run(state, context, contents, work, is_new=is_new)

    async def serialized(self, state: State, context: str, content: Content) -> str:
        """Return a Protobuf schema as a serialized descriptor in base64; the text of any other schema."""
        if content.kind != "PROTOBUF":
            return content.text

        def serialize(parse: Parse) -> str:
            from ...protocol.schemas.proto_descriptor import serialized  # Most schemas are not Protobuf.

            return serialized(parse(content))

        return await self._parsed(state, context, [content], serialize)

    # Compatibility

    async def incompatibilities(self, subject: str, new: NewSchema, version: int | None) -> list[str]:
        """Return why a schema is not compatible with a version of a subject, or with those that its level names (None).

        Raises:
            RegistryError: 40402: the version was not found; 42201: the schema is invalid.
        """
        state = await self.state()
        content = _resolved(state, subject, new.content)
        if version is None:
            return await self._incompatibilities(state, subject, content, state.live(subject))
        live = state.live(subject)
        compared = live[-1:] if version == LATEST else [each for each in live if each.version == version]
        if not compared and version != LATEST:
            raise errors.version_not_found(version)
        return await self._incompatibilities(state, subject, content, compared)

    async def _check_compatible(self, state: State, subject: str, content: Content) -> None:
        reasons = await self._incompatibilities(state, subject, content, state.live(subject))
        if reasons:
            raise errors.incompatible(reasons)

    async def _incompatibilities(self, state: State, subject: str, content: Content, older: list[Version]) -> list[str]:
        config = state.config(subject)
        level, is_lenient = config["compatibilityLevel"], config.get("compatibilityPolicy") == LENIENT
        group = config.get("compatibilityGroup")
        before = older[-1].content.metadata if older else None
        if isinstance(group, str):
            wanted = property_of(content.metadata, group)
            older = [each for each in older if property_of(each.content.metadata, group) == wanted]
        if level == "NONE":
            older = []
        elif not level.endswith("_TRANSITIVE"):
            older = older[-1:]

        def compare(parse: Parse) -> list[str]:
            candidate = parse(content)
            if config.get("validateFields") is True:
                check_names(candidate)
                metadata = before if content.metadata is None else content.metadata
                if conflicts := find_conflicts(candidate, reserved_fields(metadata), reserved_fields(before)):
                    return [*conflicts, "{validateFields: 'true'}"]
            for each in compared:
                try:
                    previous = parse(each.content)
                except InvalidSchema as error:
                    return [f"Version {each.version} of {subject} is invalid: {error}"]
                reasons = find_incompatibilities(level, candidate, [previous], is_lenient=is_lenient)
                if reasons:
                    return [
                        *reasons,
                        f"{{oldSchemaVersion: {each.version}}}",
                        f"{{oldSchema: '{each.content.text}'}}",
                        f"{{compatibility: '{level}'}}",
                    ]
            return []

        reasons: list[str] = []
        for compared in _groups(older[-COMPARED_MAX:][::-1]):
            if not reasons:
                contents = [content, *(each.content for each in compared)]
                is_new = config.get("validateNewSchemas") is not False
                reasons = await self._parsed(state, context_of(subject), contents, compare, is_new=is_new)
        return reasons

    # Deletions

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject, and return their numbers. Deleted ones can be looked up until `permanent`."""
        async with self._alone(subject), self._writing:
            state = await self.topic.settled()
            _check_may_write(state, subject)
            if not state.has_subject(subject, deleted=True):
                raise errors.subject_not_found(subject)
            # Numbers: a hundred thousand versions would otherwise be freed at once, at the end.
            gone = [each.version for each in state.subjects[subject].values() if permanent or not each.is_deleted]
            if not gone:
                raise errors.subject_soft_deleted(subject)
            if permanent and state.has_subject(subject, deleted=False):
                raise errors.subject_not_soft_deleted(subject)
            async for version in TimeSlice().each(gone):
                _check_not_referenced(state, (subject, version), deleted=permanent)
            if not permanent:
                settings = _settings_removed(state, subject)
                await self.topic.append(lambda: [delete_subject_record(subject, gone[-1]), *settings])
            for first in range(0, len(gone) if permanent else 0, TOMBSTONES_MAX):
                await self.topic.append(partial(_tombstones, subject, gone[first : first + TOMBSTONES_MAX]))
            return gone

    async def delete_version(self, subject: str, version: int, *, permanent: bool) -> int:
        """Delete a version of a subject, and return its number."""
        async with self._alone(subject), self._writing:
            state = await self.topic.settled()
            _check_may_write(state, subject)
            found = version_of(state, subject, version, deleted=True)
            if found.is_deleted and not permanent:
                raise errors.version_soft_deleted(subject, found.version)
            if permanent and not found.is_deleted:
                raise errors.version_not_soft_deleted(subject, found.version)
            _check_not_referenced(state, found.place, deleted=permanent)
            settings = _settings_removed(state, subject) if len(state.live(subject)) == 1 else []

            def records() -> list[Pair]:
                if permanent:
                    return [schema_tombstone(*found.place)]
                return [schema_record(replace(found, is_deleted=True)), *settings]

            await self.topic.append(records)
            return found.version

    # Settings

    async def set_config(self, subject: str | None, options: Mapping[str, Json]) -> Mapping[str, Json]:
        """Set options of a subject, of a context, or of all (None); others are unchanged. Returns all of them."""
        check_options(options)
        async with self._writing:
            state = await self.topic.settled()
            if state.mode(subject) in (READONLY, READONLY_OVERRIDE):
                raise _read_only(subject)
            merged = {
                name: value
                for name, value in {**state.configs.get(subject, {}), **options}.items()
                if value is not None
            }
            record = config_record(subject, merged or None)
            state.check_room_for_setting(state.configs, subject, len(record[1] or b""))
            await self.topic.append(lambda: [record])
            return merged

    async def delete_config(self, subject: str | None) -> Mapping[str, Json]:
        """Delete the options of a subject, of a context, or of all, and return them."""
        async with self._writing:
            state = await self.topic.settled()
            if state.mode(subject) in (READONLY, READONLY_OVERRIDE):
                raise _read_only(subject)
            found = state.configs.get(subject)
            if found is None:
                if subject is not None:
                    raise errors.subject_not_found(subject)
                return state.config(None)
            await self.topic.append(lambda: [config_record(subject, None)])
            return found

    async def set_mode(self, subject: str | None, mode: object, *, force: bool) -> str:
        """Set the mode of a subject, of a context, or of all.

        Args:
            force: Allow IMPORT although schemas exist.
        """
        if not isinstance(mode, str) or mode not in MODES or (mode == READONLY_OVERRIDE and subject is not None):
            raise errors.invalid_mode(MODES)
        async with self._writing:
            state = await self.topic.settled()
            state.check_room_for_setting(state.modes, subject, 0)
            records = [mode_record(subject, mode)]
            if mode == IMPORT and state.mode(subject) != IMPORT:
                if not force and any(not each.is_deleted for each in state.versions(subject)):
                    raise errors.not_permitted("Cannot import since found existing subjects")
                records.insert(0, clear_subject_record(subject))
            await self.topic.append(lambda: records)
            return mode

    async def delete_mode(self, subject: str | None) -> str:
        """Delete the mode of a subject, of a context, or of all, and return it."""
        async with self._writing:
            state = await self.topic.settled()
            found = state.modes.get(subject)
            if found is None:
                if subject is not None:
                    raise errors.subject_not_found(subject)
                return state.mode(None)
            await self.topic.append(lambda: [mode_record(subject, None)])
            return found


def version_of(state: State, subject: str, version: int, *, deleted: bool) -> Version:
    """Return a version of a subject. RegistryError: 40401, 40402.

    Args:
        version: Its number, or LATEST.
        deleted: Whether it may be a deleted one.
    """
    if not state.has_subject(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    if version == LATEST:
        found = next(iter(reversed(state.live(subject))), None)
        if found is None:
            found = next(reversed(state.subjects[subject].values()))
        return found
    found = state.subjects[subject].get(version)
    if found is None or (found.is_deleted and not deleted):
        raise errors.version_not_found(version)
    return found


def _groups(versions: list[Version]) -> Iterator[list[Version]]:
    """Yield the versions in groups of at most COMPARED_CHARACTERS, or of one; at least one group, which may be empty."""
    group: list[Version] = []
    characters = 0
    for each in versions:
        characters += len(each.content.text)
        if group and characters > COMPARED_CHARACTERS:
            yield group
            group, characters = [], len(each.content.text)
        group.append(each)
    yield group


def _grounds(state: State, subject: str, content: Content) -> list[object]:
    """Return the objects that a new version is decided on. The versions of the subject itself are not among them: they stay as they are."""
    places = reference_places(Version(subject, 0, 0, content))
    referenced = (state.subjects.get(name, {}).get(version) for name, version in places)
    return [
        state,
        *(state.configs.get(scope) for scope in state.scopes(subject)),
        *(None if each is None else each.content for each in referenced),
    ]


@contextmanager
def _named_error() -> Iterator[None]:
    """Raise RegistryError 42201 for a schema that is invalid."""
    try:
        yield
    except InvalidSchema as error:
        raise errors.invalid_schema(str(error)) from None


def _newest_first(state: State, subject: str, *, deleted: bool) -> Iterator[Version]:
    return (each for each in reversed(state.subjects.get(subject, {}).values()) if deleted or not each.is_deleted)


def _same(state: State, subject: str, content: Content, *, deleted: bool) -> Version | None:
    """Return the newest version of a subject that has exactly this schema. A schema without an id is not searched for."""
    context = state.contexts.get(context_of(subject))
    known_id = None if context is None else context.ids.get(content.guid)
    if known_id is None:
        return None
    return next((each for each in _newest_first(state, subject, deleted=deleted) if each.id == known_id), None)


def _text(schema: Schema, normalize: bool) -> str:
    return schema.normalized if normalize else schema.canonical


def _differs_only_in_text(one: Content, other: Content) -> bool:
    """Return whether two schemas are equal but for their text, and the number of their version in their metadata."""

    def rest(content: Content) -> Content:
        return replace(content, text="", guid="", metadata=numbered(content.metadata, None) or None)

    return rest(one) == rest(other)


async def _populated(state: State, subject: str, new: NewSchema) -> NewSchema:
    """Return a schema with the metadata and rules of the newest version, if it has none, and those of the subject's level.

    Raises:
        RegistryError: 42201: the text is empty, and no version exists.
    """
    content, config = new.content, state.config(subject)
    newest = next(_newest_first(state, subject, deleted=False), None)
    before = None if newest is None else newest.content
    if not content.text.strip() and before is None:
        raise errors.invalid_schema("Empty schema")
    version = max(state.subjects.get(subject, {}), default=0) + 1

    def merge(before: Content | None) -> Content:
        base = content if content.text.strip() or before is None else before
        given = [content.metadata, content.rule_set]
        if before is not None:
            given = [
                before.metadata if given[0] is None else given[0],
                before.rule_set if given[1] is None else given[1],
            ]
        metadata = merged_metadata(config.get("defaultMetadata"), given[0], config.get("overrideMetadata"))
        rules = merged_rules(config.get("defaultRuleSet"), given[1], config.get("overrideRuleSet"))
        if new.version is not None or property_of(metadata, NUMBER_OF_VERSION) is not None:
            metadata = numbered(metadata, version)
        return content_of(base.kind, base.text, base.references, metadata, rules)

    has_more = before is not None and (before.metadata or before.rule_set or not content.text.strip())
    if not (has_more or content.metadata or new.version or config.keys() & _MERGED):
        return new
    try:
        merged = await in_worker(merge, before, Worker.REGISTRY)
    except RecursionError:
        raise errors.malformed("metadata, ruleSet: nested too deeply") from None
    return new if merged.guid == content.guid else replace(new, content=merged)


_MERGED = {"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"}


def _resolved(state: State, subject: str, content: Content) -> Content:
    """Return a schema whose references name versions by number."""
    if not content.references:
        return content
    context = context_of(subject)
    references = []
    for each in content.references:
        place = normalized(each.subject, context)
        if each.version == LATEST:
            live = state.live(place)
            if not live:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{each.subject}" and version latest'
                )
            each = Reference(each.name, each.subject, live[-1].version)
        references.append(each)
    return content_of(content.kind, content.text, tuple(references), content.metadata, content.rule_set)


def _new_version(state: State, subject: str, content: Content, new: NewSchema) -> Version:
    """Return the version for the next record. RegistryError: the id or the number that the client wants is not free."""
    versions = state.subjects.get(subject, {})
    next_version = max(versions, default=0) + 1
    version = next_version if new.version in (None, LATEST) else new.version
    context = state.contexts.get(context_of(subject))
    if new.id is not None:
        present = None if context is None else context.contents.get(new.id)
        if present is not None and present.guid != content.guid:
            raise errors.not_permitted(f"Overwrite new schema with id {new.id} is not permitted.")
        schema_id = new.id
    else:
        if version != next_version:
            raise errors.invalid_schema(
                f"Version {version} is not one more than the previous version {next_version - 1}"
            )
        known = None if context is None else context.ids.get(content.guid)
        schema_id = known if known is not None else (0 if context is None else context.last_id) + 1
    if max(schema_id, version) > INT32_MAX:
        raise errors.not_permitted(f"no free number is left for ids or versions (limit {INT32_MAX})")
    return Version(subject, version, schema_id, content)


def _read_only(subject: str | None) -> RegistryError:
    return errors.not_permitted(
        "The registry is in read-only mode" if subject is None else f"Subject {subject} is in read-only mode"
    )


def _check_may_write(state: State, subject: str) -> None:
    if state.mode(subject) in (READONLY, READONLY_OVERRIDE):
        raise _read_only(subject)


def _check_may_register(state: State, subject: str, new: NewSchema) -> None:
    if not bare_name(subject):
        raise errors.invalid_subject(subject)
    _check_may_write(state, subject)
    mode = state.mode(subject)
    if new.id is not None and mode != IMPORT:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if new.id is None and mode != READWRITE:
        raise errors.not_permitted(f"Subject {subject} is not in read-write mode")


def _check_not_referenced(state: State, place: Place, *, deleted: bool) -> None:
    """Raise RegistryError 42206 if a version is referenced; by one that is itself deleted only if `deleted`."""
    for subject, number in state.referrers.get(place, {}):
        if deleted or not state.subjects[subject][number].is_deleted:
            raise errors.referenced(*place)


def _settings_removed(state: State, subject: str) -> list[Pair]:
    """Return the records that remove a deleted subject's settings, as Confluent's registry does."""
    return [
        *([config_record(subject, None)] if subject in state.configs else []),
        *([mode_record(subject, None)] if subject in state.modes else []),
    ]


def _tombstones(subject: str, versions: list[int]) -> list[Pair]:
    return [schema_tombstone(subject, each) for each in versions]


def registry_of(broker: Broker) -> Registry:
    """Return the registry of a broker's run, which all callers share: it is the only writer of the run."""
    found = broker.kept.get(Registry)
    if not isinstance(found, Registry):
        found = broker.kept[Registry] = Registry(broker)
    return found
