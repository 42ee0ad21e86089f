"""Columns of keys and values as JSON, decoded with the schemas that their bytes name: option `registry`.

    keyDecoded, valueDecoded   JSON, as `ottla consume --json` shows it; null for bytes that name no schema
    notDecoded                 why bytes that name a schema are not shown, e.g. "value: schema 7: not found in the registry"

A task looks up each schema once. So a column of numbers, which may look like ids, would cost a request each: it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ...protocol.schemas import Schema
from ...protocol.schemas.frames import Frame, Part, frame_of
from ...protocol.schemas.plain_json import MAX_STEPS, NotDecodable
from ...protocol.schemas.reading import Read, json_of, reader_of
from ...protocol.schemas.values import Budget, InvalidSchema, SchemaTooLarge
from ..errors import UsageError
from ..registry import Registry, RegistryAddress

PARTS: dict[str, Part] = {"keyDecoded": "key", "valueDecoded": "value"}
REASON = "notDecoded"
UNKNOWN_MAX = 100
"""Number of ids without a schema for which a task asks the registry."""
NUMBER_BYTES = 8

Batches = Iterator[pa.RecordBatch]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class _Shown(NamedTuple):
    text: str | None = None
    reason: str | None = None


class Decoder:
    """Decodes keys and values in one task."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[int | str, Read | str] = {}
        """Readers of values by schema, or the reasons why they cannot be read."""
        self._unknown: set[int | str] = set()

    def shown(self, part: Part, content: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> _Shown:
        """Return a key or a value as JSON, or the reason why not.

        Raises:
            UsageError: Too many schemas are not in the registry.
            PipelineError: The registry cannot be reached.
        """
        frame = frame_of(part, content, headers)
        if frame is None:
            return _Shown()
        read = self._reader(frame.schema)
        if read is None:
            is_number = frame.data is None and len(frame.head) == NUMBER_BYTES
            return _Shown() if is_number else self._refused(part, frame, "not found in the registry")
        if isinstance(read, str):
            return self._refused(part, frame, read)
        try:
            return _Shown(json_of(frame, read, Budget(MAX_STEPS)))
        except (NotDecodable, InvalidSchema, RecursionError) as error:
            return self._refused(part, frame, str(error))
        except SchemaTooLarge:
            return self._refused(part, frame, f"too large to be decoded (limit {MAX_STEPS} steps)")

    def _refused(self, part: Part, frame: Frame, reason: str) -> _Shown:
        return _Shown(reason=f"{part}: schema {frame.schema}: {reason}")

    def _reader(self, which: int | str) -> Read | str | None:
        if which in self._unknown:
            return None
        if which not in self._known:
            try:
                schema: Schema | None = self._registry.schema(which)
            except (InvalidSchema, RecursionError) as error:
                self._known[which] = str(error)
            else:
                if schema is None:
                    self._add_unknown(which)
                    return None
                self._known[which] = reader_of(schema)
        return self._known[which]

    def _add_unknown(self, which: int | str) -> None:
        if len(self._unknown) == UNKNOWN_MAX:
            raise UsageError(
                f"option registry: too many schema ids that it does not have (limit {UNKNOWN_MAX}, the last {which}): the bytes"
                " are hardly framed; choose the part that is, by option decode"
            )
        self._unknown.add(which)


def decoded_columns(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the names of the columns for the key, the value, or both."""
    return (*(name for name, part in PARTS.items() if part in parts), REASON)


def with_decoded(
    schema: pa.Schema, address: RegistryAddress | None, parts: Sequence[Part], read: Callable[[pa.Schema], Batches]
) -> Batches:
    """Yield the batches of `read(schema)`, in which decoded columns are filled from the bytes.

    Args:
        schema: The chosen columns; none is decoded without an address.
        parts: What is decoded, key and value.
        read: Reads other columns than the decoded ones.
    """
    wanted = set(schema.names) & set(decoded_columns(parts))
    if address is None or not wanted:
        yield from read(schema)
        return
    decoder = Decoder(address.opened())
    parts = [part for name, part in PARTS.items() if part in parts and (name in wanted or REASON in wanted)]
    others = [field for field in schema if field.name not in wanted]
    names = {field.name for field in others}
    for name, kind in (*((part, pa.binary()) for part in parts), ("headers", _HEADERS)):
        if name not in names:
            others.append(pa.field(name, kind))
    for batch in read(pa.schema(others)):
        headers = [
            tuple((each["key"], each["value"]) for each in row or ()) for row in batch.column("headers").to_pylist()
        ]
        shown = {
            part: [decoder.shown(part, *row) for row in zip(batch.column(part).to_pylist(), headers, strict=True)]
            for part in parts
        }
        made: dict[str, list[str | None]] = {
            name: [each.text for each in shown[part]] for name, part in PARTS.items() if part in shown
        }
        made[REASON] = [
            "; ".join(each.reason for each in row if each.reason is not None) or None
            for row in zip(*shown.values(), strict=True)
        ]
        arrays = [
            pa.array(made[field.name], field.type) if field.name in made else batch.column(field.name)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
