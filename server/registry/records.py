"""Records of `_schemas`: JSON in the format of Confluent's Schema Registry, so that either registry reads the other's topic.

    key                                                              value; null deletes
    {"keytype":"SCHEMA","subject":S,"version":V,"magic":1}           subject, version, id, schema, deleted; for others than plain
                                                                     Avro schemaType, references, metadata, ruleSet
    {"keytype":"CONFIG","subject":S or null,"magic":0}               compatibilityLevel, and options
    {"keytype":"MODE","subject":S or null,"magic":0}                 mode
    {"keytype":"DELETE_SUBJECT","subject":S,"magic":0}               version: it and all earlier ones are deleted
    {"keytype":"CLEAR_SUBJECT","subject":S or null,"magic":0}        deleted versions are forgotten
    {"keytype":"NOOP","magic":0}                                     ignored

A compacted topic compares keys byte by byte, so the order of their fields is part of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from .errors import shown
from .names import SUBJECT_CHARACTERS_MAX

SCHEMAS_TOPIC = "_schemas"
AVRO = "AVRO"
INT32_MAX = 2**31 - 1
REFERENCES_MAX = 1_000
"""Maximum number of schemas that one schema reaches."""

Json: TypeAlias = Any
Pair: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a record."""


class KeyType(Enum):
    """Kinds of records that have an effect."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"

    @property
    def magic(self) -> int:
        """Version of the format of its keys."""
        return int(self is KeyType.SCHEMA)


class Reference(NamedTuple):
    """A schema that another one uses under a name."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Content:
    """A schema, whatever its subjects and its id."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json = None
    rule_set: Json = None
    guid: str = ""
    """Digest of the other fields, as a UUID; see `content_of`."""
    size_bytes: int = field(default=0, compare=False)
    """Bytes of the other fields, as they are digested."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    content: Content
    is_deleted: bool = False

    @property
    def place(self) -> tuple[str, int]:
        return self.subject, self.version


class Entry(NamedTuple):
    """A parsed record."""

    kind: KeyType
    subject: str | None
    """None for a setting of the whole registry."""
    version: int
    value: Version | Mapping[str, Json] | None
    size_bytes: int = 0
    """Size of the record's value."""


class UnreadableRecordError(ValueError):
    """A record that is not in the format."""


def content_of(
    kind: str, text: str, references: tuple[Reference, ...] = (), metadata: Json = None, rule_set: Json = None
) -> Content:
    """Return a schema with its digest. Equal schemas have equal digests, and the id of one is that of the other."""
    metadata, rule_set = _without_empty(metadata), _plain_rules(rule_set)
    data = text.encode("utf-8", "surrogatepass")
    digest, size_bytes = hashlib.md5(data, usedforsecurity=False), len(data)
    for part in (*references, *(each for each in (kind if kind != AVRO else None, metadata, rule_set) if each)):
        data = b"\0" + json.dumps(part, sort_keys=True).encode()
        digest.update(data)
        size_bytes += len(data)
    hexadecimal = digest.hexdigest()
    parts = (hexadecimal[low:high] for low, high in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    return Content(kind, text, references, metadata, rule_set, "-".join(parts), size_bytes)


_DEFAULTS_OF_RULES = {"kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False}
_EMPTY: tuple[Json, ...] = (None, "", [], {})


def _without_empty(found: Json) -> Json:
    """Return metadata, rules or a rule without members that say nothing: clients add them to what they have read, and look it up."""
    if not isinstance(found, dict):
        return found
    return {name: each for name, each in found.items() if each not in _EMPTY}


def _plain_rules(found: Json) -> Json:
    """Return rules as Confluent's registry stores them: without empty members, with the defaults of each rule."""
    if not isinstance(found, dict):
        return found
    return {
        name: [_DEFAULTS_OF_RULES | _without_empty(each) if isinstance(each, dict) else each for each in value]
        if name.endswith("Rules") and isinstance(value, list)
        else value
        for name, value in _without_empty(found).items()
    }


def _bytes(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _key(kind: KeyType, subject: str | None, version: int | None = None) -> bytes:
    numbered = {} if version is None else {"version": version}
    return _bytes({"keytype": kind.name, "subject": subject, **numbered, "magic": kind.magic})


def schema_record(made: Version) -> Pair:
    """Return the record of a version, deleted or not."""
    content = made.content
    value = {"subject": made.subject, "version": made.version, "id": made.id, **content_fields(content)}
    return _key(KeyType.SCHEMA, made.subject, made.version), _bytes(value | {"deleted": made.is_deleted})


def content_fields(content: Content) -> dict[str, Json]:
    """Return the fields of a schema, in records and in responses: what is empty is left out, and so is Avro as a type."""
    return {
        **({} if content.kind == AVRO else {"schemaType": content.kind}),
        **({"references": [each._asdict() for each in content.references]} if content.references else {}),
        **({} if content.metadata is None else {"metadata": content.metadata}),
        **({} if content.rule_set is None else {"ruleSet": content.rule_set}),
        "schema": content.text,
    }


def schema_tombstone(subject: str, version: int) -> Pair:
    """Return the record that deletes a version permanently."""
    return _key(KeyType.SCHEMA, subject, version), None


def config_record(subject: str | None, config: Mapping[str, Json] | None) -> Pair:
    """Return the record of a compatibility level and its options; None deletes it."""
    key = _key(KeyType.CONFIG, subject)
    return key, None if config is None else _bytes(({} if subject is None else {"subject": subject}) | dict(config))


def mode_record(subject: str | None, mode: str | None) -> Pair:
    """Return the record of a mode; None deletes it."""
    key = _key(KeyType.MODE, subject)
    return key, None if mode is None else _bytes(({} if subject is None else {"subject": subject}) | {"mode": mode})


def delete_subject_record(subject: str, version: int) -> Pair:
    """Return the record that deletes a subject's versions up to this one, so that they can still be looked up."""
    return _key(KeyType.DELETE_SUBJECT, subject), _bytes({"subject": subject, "version": version})


def clear_subject_record(subject: str | None) -> Pair:
    """Return the record after which deleted versions are forgotten."""
    return _key(KeyType.CLEAR_SUBJECT, subject), _bytes({"subject": subject})


def parse_record(key: bytes | None, value: bytes | None) -> Entry | None:
    """Parse a record; None if it has no effect.

    Raises:
        UnreadableRecordError: It is not in the format.
    """
    found = _object(key)
    name = found.get("keytype")
    if not isinstance(name, str) or name not in KeyType.__members__:
        return None  # NOOP, or a record of a later version of Confluent's registry
    kind = KeyType[name]
    subject = found.get("subject")
    if not isinstance(subject, str) and (subject is not None or kind in (KeyType.SCHEMA, KeyType.DELETE_SUBJECT)):
        raise UnreadableRecordError(f"subject: expected a string, found {type(subject).__name__}")
    if subject is not None and len(subject) > SUBJECT_CHARACTERS_MAX:
        raise UnreadableRecordError(f"subject: too long ({len(subject)} characters, limit {SUBJECT_CHARACTERS_MAX})")
    version = _number(found, "version", 1) if kind is KeyType.SCHEMA else 0
    if value is None:
        return Entry(kind, subject, version, None)
    fields = _object(value)
    if kind is KeyType.SCHEMA:
        return Entry(kind, subject, version, _version(str(subject), version, fields))
    if kind is KeyType.DELETE_SUBJECT:
        version = _number(fields, "version", 0)
    options = {name: each for name, each in fields.items() if name != "subject"}
    return Entry(kind, subject, version, options, len(value))


def _version(subject: str, version: int, fields: dict[str, Json]) -> Version:
    text, kind = fields.get("schema"), fields.get("schemaType") or AVRO
    if not isinstance(text, str) or not isinstance(kind, str):
        raise UnreadableRecordError("schema, schemaType: expected strings")
    references = references_of(fields.get("references"))
    try:
        content = content_of(kind, text, references, fields.get("metadata"), fields.get("ruleSet"))
    except RecursionError:
        raise UnreadableRecordError("metadata, ruleSet: nested too deeply") from None
    return Version(subject, version, _number(fields, "id", 0), content, fields.get("deleted") is True)


def references_of(found: Json) -> tuple[Reference, ...]:
    """Parse references. UnreadableRecordError: they are malformed."""
    if found is None:
        return ()
    if isinstance(found, list) and len(found) > REFERENCES_MAX:
        raise UnreadableRecordError(f"references: too many ({len(found)}, limit {REFERENCES_MAX})")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnreadableRecordError("references: expected an array of objects")
    parsed = []
    for each in found:
        name, subject = each.get("name"), each.get("subject")
        if not isinstance(name, str) or not isinstance(subject, str):
            raise UnreadableRecordError("references: expected the strings name and subject")
        parsed.append(Reference(name, subject, _number(each, "version", -1)))
    return tuple(parsed)


def _object(data: bytes | None) -> dict[str, Json]:
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise UnreadableRecordError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnreadableRecordError(f"expected a JSON object, found {type(found).__name__}")
    return found


def _number(fields: Mapping[str, Json], name: str, low: int) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= INT32_MAX:
        raise UnreadableRecordError(f"{name}: expected a number from {low} to {INT32_MAX}, found {shown(found)}")
    return found
