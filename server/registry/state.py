"""All that the registry knows: the fold of the records of `_schemas`, in the order of their offsets.

Two registries that have read the same records have the same state. Nothing else changes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from .errors import store_failed, too_large
from .names import bare_name, context_of, prefix_of, qualified
from .records import Content, Entry, Json, KeyType, Version
from .schemas import LEVELS

log = logging.getLogger("ottla.registry")

BACKWARD = "BACKWARD"
READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)

VERSIONS_MAX = 100_000
TEXT_BYTES_MAX = 256 << 20
"""Limits of the whole registry, which is in memory: of its schemas, and of its settings."""
SETTINGS_MAX = 100_000
"""Maximum number of compatibility levels, and of modes."""

Place = tuple[str, int]
"""A subject and a version of it."""


class ContextState:
    """The ids of one context."""

    def __init__(self) -> None:
        self.contents: dict[int, Content] = {}
        """Schemas by id."""
        self.places: dict[int, dict[Place, None]] = {}
        """Versions with this id, deleted ones as well."""
        self.ids: dict[str, int] = {}
        """Ids by digest of the schema."""
        self.last_id = 0
        """Largest id that was ever in use."""


class State:
    """See the module. On Trio's thread."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Version]] = {}
        """Versions by subject and number, deleted ones as well, in the order of their numbers."""
        self.contexts: dict[str, ContextState] = {}
        self.configs: dict[str | None, Mapping[str, Json]] = {}
        """Compatibility levels and their options by subject, by the prefix of a context, or None for all."""
        self.modes: dict[str | None, str] = {}
        """Modes, by the same names."""
        self.referrers: dict[Place, dict[Place, None]] = {}
        """Versions that refer to a version, deleted ones as well."""
        self.last_id = 0
        """Largest id that was ever in use in any context."""
        self.versions_count = 0
        self.text_bytes = 0
        """Size of schemas with their metadata and rules, and of compatibility levels with their options."""
        self._config_bytes: dict[str | None, int] = {}

    def apply(self, entry: Entry) -> Iterator[None]:
        """Take one record into account, in short pieces.

        Raises:
            RegistryError: 50001: the limits of the registry are exceeded.
        """
        value, subject = entry.value, entry.subject
        match entry.kind:
            case KeyType.SCHEMA:
                assert subject is not None
                if isinstance(value, Version):
                    self._put(value)
                else:
                    self._remove(subject, entry.version)
            case KeyType.DELETE_SUBJECT if subject is not None and value is not None:
                versions = self.subjects.get(subject, {})
                for found in list(versions.values()):
                    if found.version <= entry.version and not found.is_deleted:
                        versions[found.version] = replace(found, is_deleted=True)
                        yield
            case KeyType.CLEAR_SUBJECT if value is not None:
                for found in self.versions(subject):
                    if found.is_deleted:
                        self._remove(*found.place)
                    yield
            case KeyType.CONFIG:
                _set(self.configs, subject, _config(value) if isinstance(value, Mapping) else None)
                size_bytes = entry.size_bytes if subject in self.configs else 0
                self.text_bytes += size_bytes - self._config_bytes.get(subject, 0)
                _set(self._config_bytes, subject, size_bytes or None)
            case KeyType.MODE:
                mode = value.get("mode") if isinstance(value, Mapping) else None
                _set(self.modes, subject, mode if mode in MODES else None)
        self._check_bounds()
        yield

    def _check_bounds(self) -> None:
        settings_count = max(len(self.configs), len(self.modes))
        if settings_count > SETTINGS_MAX:
            raise store_failed(f"_schemas: {_too_many_settings(settings_count)}")
        if self.versions_count > VERSIONS_MAX or self.text_bytes > TEXT_BYTES_MAX:
            raise store_failed(f"_schemas: {_too_many(self.versions_count, self.text_bytes)}")

    def _put(self, made: Version) -> None:
        context = self.contexts.setdefault(context_of(made.subject), ContextState())
        known = context.contents.get(made.id)
        if known is not None and known.text != made.content.text:
            log.warning(
                "_schemas: version %d of %s is ignored: its id %d is that of another schema",
                made.version,
                made.subject,
                made.id,
            )
            return
        if known is not None and known.guid == made.content.guid:  # metadata may be too deep to be compared itself
            made = replace(made, content=known)  # one text in memory, however many subjects have it
        versions = self.subjects.setdefault(made.subject, {})
        before = versions.get(made.version)
        if before is None:
            last = next(reversed(versions), 0)
            versions[made.version] = made
            if last > made.version:
                self.subjects[made.subject] = dict(sorted(versions.items()))
            self.versions_count += 1
        else:
            versions[made.version] = made
            self._unlink(before)
        if context.contents.setdefault(made.id, made.content) is not made.content or not context.places.get(made.id):
            self.text_bytes += made.content.size_bytes
        context.places.setdefault(made.id, {})[made.place] = None
        if context.contents[made.id].guid == made.content.guid:  # else the id also has other references or metadata
            context.ids.setdefault(made.content.guid, made.id)
        context.last_id = max(context.last_id, made.id)
        self.last_id = max(self.last_id, made.id)
        for place in reference_places(made):
            self.referrers.setdefault(place, {})[made.place] = None

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        found = versions.pop(version, None)
        if found is None:
            return
        self.versions_count -= 1
        if not versions:
            del self.subjects[subject]
        self._unlink(found)

    def _unlink(self, found: Version) -> None:
        """Remove a version from all tables but that of its subject."""
        context = self.contexts[context_of(found.subject)]
        places = context.places[found.id]
        del places[found.place]
        if context.contents[found.id] is not found.content:
            self.text_bytes -= found.content.size_bytes
        if not places:
            del context.places[found.id]
            content = context.contents.pop(found.id)
            self.text_bytes -= content.size_bytes
            if context.ids.get(content.guid) == found.id:
                del context.ids[content.guid]
        for place in reference_places(found):
            referrers = self.referrers.get(place, {})
            referrers.pop(found.place, None)
            if not referrers:
                self.referrers.pop(place, None)

    # Questions

    def check_room(self, made: Version) -> None:
        """Raise RegistryError 42209 if a new version would exceed the limits: once it was written, nothing could be read."""
        versions_count, text_bytes = self.versions_count + 1, self.text_bytes + made.content.size_bytes
        if versions_count > VERSIONS_MAX or text_bytes > TEXT_BYTES_MAX:
            raise too_large(_too_many(versions_count, text_bytes))

    def check_room_for_setting(self, settings: Mapping[str | None, object], scope: str | None, size_bytes: int) -> None:
        """Raise RegistryError 42209 if a new level or mode would exceed the limits. `settings` is `configs` or `modes`."""
        if scope not in settings and len(settings) >= SETTINGS_MAX:
            raise too_large(_too_many_settings(len(settings)))
        if self.text_bytes + size_bytes > TEXT_BYTES_MAX:
            raise too_large(_too_many(self.versions_count, self.text_bytes + size_bytes))

    def versions(self, scope: str | None) -> Iterator[Version]:
        """Yield all versions of a subject, of a context (its prefix), or of all (None)."""
        if scope is None or not bare_name(scope):
            for subject in list(self.subjects):
                if scope is None or context_of(subject) == context_of(scope):
                    yield from list(self.subjects[subject].values())
        else:
            yield from list(self.subjects.get(scope, {}).values())

    def live(self, subject: str) -> list[Version]:
        """Return the versions of a subject that are not deleted, oldest first."""
        return [each for each in self.subjects.get(subject, {}).values() if not each.is_deleted]

    def has_subject(self, subject: str, *, deleted: bool) -> bool:
        """Return whether a subject has versions."""
        return any(deleted or not each.is_deleted for each in self.subjects.get(subject, {}).values())

    def content(self, context: str, schema_id: int) -> Content | None:
        """Return the schema with this id in this context."""
        found = self.contexts.get(context)
        return None if found is None else found.contents.get(schema_id)

    def places(self, context: str, schema_id: int) -> list[Version]:
        """Return the versions that have this id in this context."""
        found = self.contexts.get(context)
        return [] if found is None else self.at(list(found.places.get(schema_id, ())))

    def at(self, places: list[Place]) -> list[Version]:
        """Return these versions; those that are gone are left out, for worker threads while the state changes."""
        found = (self.subjects.get(subject, {}).get(version) for subject, version in places)
        return [each for each in found if each is not None]

    def scopes(self, subject: str | None) -> list[str | None]:
        """Return the names of the settings that apply to a subject, the strongest first."""
        if subject is None:
            return [None]
        prefix = prefix_of(context_of(subject))
        return [subject, *([prefix] if prefix and prefix != subject else []), None]

    def config(self, subject: str | None) -> Mapping[str, Json]:
        """Return the compatibility level of a subject and its options."""
        merged: dict[str, Json] = {"compatibilityLevel": BACKWARD}
        for scope in reversed(self.scopes(subject)):
            merged |= {name: value for name, value in self.configs.get(scope, {}).items() if value is not None}
        return merged

    def mode(self, subject: str | None) -> str:
        """Return the mode of a subject."""
        if self.modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        return next((self.modes[scope] for scope in self.scopes(subject) if scope in self.modes), READWRITE)


def reference_places(made: Version) -> list[Place]:
    """Return the versions that a version refers to; names without a context are of its own."""
    context = context_of(made.subject)
    return [(qualified(each.subject, context), each.version) for each in made.content.references]


def _too_many(versions_count: int, text_bytes: int) -> str:
    return (
        f"too many schemas for this registry ({versions_count} versions, limit {VERSIONS_MAX};"
        f" {text_bytes} bytes, limit {TEXT_BYTES_MAX})"
    )


def _too_many_settings(count: int) -> str:
    return f"too many settings of subjects ({count}, limit {SETTINGS_MAX})"


def _config(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return a compatibility level and its options, without a level that does not exist."""
    level = value.get("compatibilityLevel")
    if level is None or level in LEVELS:
        return value
    log.warning("_schemas: the compatibility level %.100r is ignored", level)
    return {name: each for name, each in value.items() if name != "compatibilityLevel"}


def _set(settings: dict, name: str | None, value: object) -> None:  # type: ignore[type-arg]
    if value is None:
        settings.pop(name, None)
    else:
        settings[name] = value
