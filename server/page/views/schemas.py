"""Subjects of the schema registry, and the versions of one: their texts, differences, and a form to try a schema."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....protocol.schemas import KINDS
from ...broker.broker import Broker
from ...registry.errors import RegistryError
from ...registry.names import normalized
from ...registry.records import Version, content_of
from ...registry.registry import LATEST, NewSchema, registry_of, version_of
from ...registry.state import State
from ...runtime.errors import ControlError, Kind
from ...runtime.threads import in_worker
from ..section import ROWS_MAX, Page, Row, Section

SHOWN_CHARACTERS_MAX = 100_000
"""Maximum size of a schema that is shown, or compared line by line."""
COMPARED_LINES_MAX = 1_000
HERE = "/schemas"
Line = tuple[str, str]
"""`+`, `-` or a blank, and the text."""


@dataclass(frozen=True, slots=True)
class SubjectRow:
    name: str
    kind: str
    versions: tuple[int, ...]
    latest_id: int
    level: str


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version of a subject, and its lines, marked as changed from another version if one is compared."""

    subject: str
    version: int
    id: int
    kind: str
    level: str
    references: tuple[str, ...]
    versions: tuple[int, ...]
    compared: int | None
    lines: tuple[Line, ...] | None
    """None: it is too large to be shown."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A schema that a user tries, and the verdict; empty before."""

    kind: str
    kinds: tuple[str, ...]
    schema: str
    is_compatible: bool | None
    reasons: tuple[str, ...]


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of all subjects."""
    state = await _state(broker)
    rows = await in_worker(_rows, state)
    shown = tuple(Row(f"subject-{each.name}", each) for each in rows[:ROWS_MAX])
    return Page("Schemas", HERE, (Section("subjects", "subjects", len(rows), shown),))


def _rows(state: State) -> list[SubjectRow]:
    rows = []
    for subject in sorted(state.subjects.copy()):
        live = state.live(subject)
        if live:
            latest = live[-1]
            versions = tuple(each.version for each in live)
            level = state.config(subject)["compatibilityLevel"]
            rows.append(SubjectRow(subject, latest.content.kind, versions, latest.id, level))
    return rows


async def subject_page(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of a subject.

    The field `version` names the version, by default the newest, and `compared` an older one. `schema` and `kind` are a schema
    to try.
    """
    state = await _state(broker)
    try:
        subject = normalized(fields["subject"])
        shown = version_of(state, subject, _version(fields.get("version", "")), deleted=False)
        live = state.live(subject)
        older = next((each for each in reversed(live) if each.version < shown.version), None)
        chosen = fields.get("compared", "")
        compared = version_of(state, subject, _version(chosen), deleted=False) if chosen else older
    except RegistryError as error:
        raise ControlError(Kind.NOT_FOUND if error.status == 404 else Kind.INVALID, str(error)) from error
    about = ShownVersion(
        subject,
        shown.version,
        shown.id,
        shown.content.kind,
        state.config(subject)["compatibilityLevel"],
        tuple(f"{each.name}: {each.subject} {each.version}" for each in shown.content.references),
        tuple(each.version for each in live[-ROWS_MAX:]),
        None if compared is None else compared.version,
        await in_worker(lambda pair: _lines(*pair), (shown, compared)),
    )
    sections = (
        Section("version", "schema_version", about),
        Section("try", "try_schema", await _trial(broker, subject, fields, shown)),
    )
    return Page(subject, HERE, sections, (("Schemas", HERE),))


def _version(text: str) -> int:
    if not text:
        return LATEST
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RegistryError(422, 42202, f"version: expected a number, found {text[:100]!r}")
    return int(text)


def _lines(shown: Version, compared: Version | None) -> tuple[Line, ...] | None:
    """Return the lines of a schema, with those of an older version that it lacks. For a worker thread."""
    if max(len(each.content.text) for each in (shown, compared) if each is not None) > SHOWN_CHARACTERS_MAX:
        return None
    new = _pretty(shown)
    if compared is None:
        return tuple((" ", line) for line in new)
    return tuple(_difference(_pretty(compared), new))


def _difference(old: list[str], new: list[str]) -> Iterator[Line]:
    """Yield the lines of both texts. Many lines that differ are not compared with each other: that takes the square of their number."""
    begin = _common(old, new)
    yield from ((" ", line) for line in new[:begin])
    old, new = old[begin:], new[begin:]
    end = _common(old[::-1], new[::-1])
    old, new, same = old[: len(old) - end], new[: len(new) - end], new[len(new) - end :]
    matcher = difflib.SequenceMatcher(None, old, new) if max(len(old), len(new)) <= COMPARED_LINES_MAX else None
    blocks = [(len(old), len(new), 0)] if matcher is None else matcher.get_matching_blocks()
    at, there = 0, 0
    for next_at, next_there, size in blocks:
        yield from (("-", line) for line in old[at:next_at])
        yield from (("+", line) for line in new[there:next_there])
        yield from ((" ", line) for line in new[next_there : next_there + size])
        at, there = next_at + size, next_there + size
    yield from ((" ", line) for line in same)


def _common(one: list[str], other: list[str]) -> int:
    """Return the number of lines with which both texts begin."""
    pairs = zip(one, other, strict=False)
    return next((number for number, (mine, yours) in enumerate(pairs) if mine != yours), min(len(one), len(other)))


def _pretty(version: Version) -> list[str]:
    if version.content.kind == "PROTOBUF":
        return version.content.text.splitlines()
    try:
        return json.dumps(json.loads(version.content.text), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return version.content.text.splitlines()


async def _trial(broker: Broker, subject: str, fields: Mapping[str, str], shown: Version) -> Trial:
    text, kind = fields.get("schema", ""), fields.get("kind", shown.content.kind)
    if not text or kind not in KINDS:
        return Trial(kind, KINDS, text, None, ())
    new = NewSchema(content_of(kind, text, shown.content.references))
    try:
        reasons = await registry_of(broker).incompatibilities(subject, new, None)
    except RegistryError as error:
        return Trial(kind, KINDS, text, None, (str(error),))
    return Trial(kind, KINDS, text, not reasons, tuple(reasons))


async def _state(broker: Broker) -> State:
    try:
        return await registry_of(broker).state()
    except RegistryError as error:
        raise ControlError(Kind.FAILED, str(error)) from error
