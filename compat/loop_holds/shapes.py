"""Requests of any size, made from the schema tables of the protocol: every array of every request can be the long one.

A request is encoded once with one element in the array to enlarge. The positions that must differ between elements are known,
and NumPy repeats it. So a frame of a million elements takes a tenth of a second, and an API that is new in the tables is tested
without a change here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ottla.protocol.apis import APIS, Api
from ottla.protocol.connection import REQUEST_ELEMENTS_MAX
from ottla.protocol.headers import request_header
from ottla.protocol.schema import Field, Type, fields_of
from ottla.protocol.wire import uvarint

FRAME_BYTES_MAX = 104_857_600
ELEMENTS_MAX = REQUEST_ELEMENTS_MAX * 99 // 100
"""A little below what all arrays of one request together may have."""
SESSION_PARTITIONS = 49_000
"""A little below what all fetch sessions may have, by the default of their slots."""
DIGITS = 7
TAGGED = ("(tagged fields)",)
"""The path for APIs without arrays: unknown tagged fields, each of which counts as an element."""

Path = tuple[str, ...]


class Text(NamedTuple):
    """A string that ends in the number of its element."""

    prefix: str
    modulo: int = 10**DIGITS


class Number(NamedTuple):
    """The number of its element, in an integer or at the end of a UUID."""

    modulo: int = 1 << 31


class Form(NamedTuple):
    """An array that one version of a request can have, given by the names of fields on the way to it."""

    api: Api
    version: int
    path: Path

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {'.'.join(self.path)}"


class Values:
    """The values of the fields; see `values.py`."""

    def of(self, form: Form, cls: type[Any], field: Field, *, in_cell: bool) -> Any:
        """Return a value, Text or Number. `in_cell`: within the element that is repeated, where alone these can differ."""
        raise NotImplementedError

    def has_element(self, form: Form, field: Field, *, in_cell: bool) -> bool | None:
        """Return whether another array than the long one has an element or none; None: it is null."""
        raise NotImplementedError


def forms() -> list[Form]:
    """Return every array of every API in the highest version that has it."""
    found: dict[tuple[int, Path], Form] = {}
    for api in APIS.values():
        for version in range(api.versions[0], api.versions[1] + 1):
            for path in _paths(api, version):
                found[api.key, path] = Form(api, version, path)
    return sorted(found.values(), key=lambda form: (form.api.key, form.path))


def other_versions() -> list[Form]:
    """Return every array in each version with another request format than the later versions."""
    newest = set(forms())
    found = []
    for api in APIS.values():
        seen = set()
        for version in range(api.versions[1], api.versions[0] - 1, -1):
            flexible = api.is_flexible(version)
            shape = (flexible, _shape(api.request, version, flexible))
            if shape not in seen:
                seen.add(shape)
                found += [form for path in _paths(api, version) if (form := Form(api, version, path)) not in newest]
    return found


def _fields(cls: type[Any], version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.exists_in(version) and field.tag is None]


def _shape(cls: type[Any], version: int, flexible: bool) -> Any:
    def of(type: Type) -> Any:
        if type.struct is not None:
            return _shape(type.struct, version, flexible)
        return (type.name, of(type.item)) if type.item is not None else type.name

    return tuple((field.name, of(field.type), field.is_nullable_in(version)) for field in _fields(cls, version))


def _paths(api: Api, version: int) -> list[Path]:
    found = [*_arrays(api.request, version, ())]
    return found or ([TAGGED] if api.is_flexible(version) else [])


def _arrays(cls: type[Any], version: int, above: Path) -> Iterator[Path]:
    for field in _fields(cls, version):
        if field.type.item is not None:
            yield (*above, field.name)
            if field.type.item.struct is not None:
                yield from _arrays(field.type.item.struct, version, (*above, field.name))


class _Cell:
    """Bytes, with the places that get the number of their element."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.elements = 1
        self.slots: list[tuple[int, str, int]] = []

    def repeated(self, count: int) -> bytes:
        rows = np.tile(np.frombuffer(self.bytes, np.uint8), (count, 1))
        for at, kind, modulo in self.slots:
            numbers = np.arange(count) % modulo
            if kind == "text":
                for digit in range(DIGITS):
                    rows[:, at + digit] = numbers // 10 ** (DIGITS - 1 - digit) % 10 + ord("0")
            else:
                width = struct.calcsize(">" + kind)
                rows[:, at : at + width] = numbers.astype(np.dtype(">" + kind)).view(np.uint8).reshape(count, width)
        return rows.tobytes()


class Shape:
    """One form with its values: it makes frames with any number of elements."""

    def __init__(self, form: Form, values: Values) -> None:
        self.form, self._values = form, values
        self._flexible = form.api.is_flexible(form.version)
        self._before, self._cell, self._behind = bytearray(), _Cell(), bytearray()
        out = self._struct(self._before, form.api.request, form.path)
        assert out is self._behind, f"{form} has no such array"

    @property
    def most(self) -> int:
        """The most elements of the long array that the limits allow."""
        room = FRAME_BYTES_MAX - 200 - len(self._before) - len(self._behind)
        return min(ELEMENTS_MAX // self._cell.elements, room // max(1, len(self._cell.bytes)))

    def frame(self, count: int, correlation_id: int = 1) -> bytes:
        """Return a whole frame, size included."""
        if self.form.path == TAGGED:
            middle = uvarint(count) + b"".join(uvarint(20_000 + n) + b"\0" for n in range(count))
        else:
            middle = self._count(count) + self._cell.repeated(count)
        head = request_header(self.form.api.key, self.form.version, correlation_id, "holds", self._flexible)
        size = len(head) + len(self._before) + len(middle) + len(self._behind)
        return b"".join((struct.pack(">i", size), head, self._before, middle, self._behind))

    def _count(self, count: int) -> bytes:
        return uvarint(count + 1) if self._flexible else struct.pack(">i", count)

    def _struct(self, out: bytearray, cls: type[Any], path: Path, cell: _Cell | None = None) -> bytearray:
        """Write one struct into `out`; return the place for the next bytes, which changes after the long array."""
        for field in _fields(cls, self.form.version):
            on_path = cell is None and path[:1] == (field.name,)
            if field.type.item is not None:
                out = self._array(out, cls, field, path[1:] if on_path else (), on_path, cell)
            elif field.type.struct is not None and not field.is_nullable_in(self.form.version):
                out = self._struct(out, field.type.struct, (), cell)
            else:
                value = self._values.of(self.form, cls, field, in_cell=cell is not None)
                self._value(out, field.type, value, cell)
        if self._flexible:
            if path == TAGGED:
                return self._behind
            out.append(0)
        return out

    def _array(
        self, out: bytearray, cls: type[Any], field: Field, rest: Path, on_path: bool, cell: _Cell | None
    ) -> bytearray:
        item = field.type.item
        assert item is not None
        if on_path and not rest:
            self._element(self._cell.bytes, cls, field, item, self._cell)
            return self._behind
        if on_path:
            assert item.struct is not None
            out += self._count(1)
            return self._struct(out, item.struct, rest)
        has_element = self._values.has_element(self.form, field, in_cell=cell is not None)
        if has_element is None:
            out += self._count(-1)
        elif cell is None or not has_element:
            out += self._count(0)
        else:
            cell.elements += 1
            out += self._count(1)
            self._element(out, cls, field, item, cell)
        return out

    def _element(self, out: bytearray, cls: type[Any], field: Field, item: Type, cell: _Cell) -> None:
        if item.struct is not None:
            self._struct(out, item.struct, (), cell)
        else:
            one = Field(field.name, item, field.first, field.last, None, None, None)
            self._value(out, item, self._values.of(self.form, cls, one, in_cell=True), cell)

    def _value(self, out: bytearray, type: Type, value: Any, cell: _Cell | None) -> None:
        if type.name in ("string", "bytes", "records", "struct"):
            self._slice(out, type.name, value, cell)
        elif isinstance(value, Number):
            at = len(out)
            out += struct.pack(">" + type.name, b"" if type.name == "16s" else 0)
            if cell is not None:
                at, kind = (at + 12, "i") if type.name == "16s" else (at, type.name)
                cell.slots.append((at, kind, value.modulo))
        else:
            out += struct.pack(">" + type.name, value)

    def _slice(self, out: bytearray, kind: str, value: Any, cell: _Cell | None) -> None:
        if kind == "struct":
            assert value is None
            out += b"\xff"
            return
        width = "h" if kind == "string" else "i"
        if value is None:
            out += b"\0" if self._flexible else struct.pack(">" + width, -1)
            return
        text = f"{value.prefix}{0:0{DIGITS}}" if isinstance(value, Text) else value
        raw = text.encode() if isinstance(text, str) else text
        out += uvarint(len(raw) + 1) if self._flexible else struct.pack(">" + width, len(raw))
        if isinstance(value, Text) and cell is not None:
            cell.slots.append((len(out) + len(raw) - DIGITS, "text", value.modulo))
        out += raw
