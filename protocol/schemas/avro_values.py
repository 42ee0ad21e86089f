"""Values in Avro's binary encoding (<https://avro.apache.org/docs/1.12.0/specification/#binary-encoding>) as JSON.

A value of a union is shown without the name of its branch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from .avro import AvroSchema, Type
from .avro_logical import logical
from .plain_json import (
    CONTAINER_STEPS,
    FORMATTED_STEPS,
    NotDecodable,
    base64_text,
    check_depth,
    double,
    single,
    text_cost,
)
from .values import Budget


def decode_avro(schema: AvroSchema, data: bytes, budget: Budget) -> Any:
    """Return the JSON value of bytes.

    Raises:
        NotDecodable: They are not one value of the schema.
        SchemaTooLarge: The budget is spent.
    """
    try:
        return _Reader(data, budget).whole(schema.root)
    except NotDecodable:
        # Confluent's serializer for Java writes the bytes of a schema "bytes" without their length.
        if schema.root.kind == "bytes":
            return base64_text(data)
        raise


class _Reader:
    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data = data
        self._at = 0
        self._budget = budget
        self._costs: dict[int, int] = {}
        """Steps of the fields of records, by identity of the type."""

    def whole(self, kind: Type) -> Any:
        found = self._value(kind, 1)
        if self._at != len(self._data):
            raise NotDecodable(f"bytes after the value: {len(self._data) - self._at}")
        return found

    def _value(self, kind: Type, depth: int) -> Any:
        self._budget.spend(1)
        check_depth(depth)
        read = _SIMPLE.get(kind.kind)
        if read is not None:
            value = read(self, kind)
            if kind.props or isinstance(value, bytes):
                self._budget.spend(FORMATTED_STEPS)
                value = logical(kind, value)
                if isinstance(value, str):
                    self._budget.spend(text_cost(value))
            return value
        if kind.kind == "union":
            return self._value(kind.branches[self._index("union", len(kind.branches))], depth)
        self._budget.spend(CONTAINER_STEPS)
        match kind.kind:
            case "array":
                return [self._value(kind.branches[0], depth + 1) for _ in self._items()]
            case "map":
                return {self._text(kind): self._value(kind.branches[0], depth + 1) for _ in self._items()}
        cost = self._costs.get(id(kind))
        if cost is None:
            cost = self._costs[id(kind)] = sum(text_cost(each.name) for each in kind.fields)
        self._budget.spend(cost)
        return {each.name: self._value(each.type, depth + 1) for each in kind.fields}

    def _items(self) -> Any:
        """Yield for each item of an array or a map. Those without bytes, e.g. nulls, cost their steps as all others."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block
            yield from range(count)

    def _take(self, size: int) -> bytes:
        start = self._at
        if size < 0:
            raise NotDecodable(f"position {start}: negative length ({size})")
        if size > len(self._data) - start:
            raise NotDecodable(f"position {start}: expected {size} more bytes, found {len(self._data) - start}")
        self._at = start + size
        return self._data[start : self._at]

    def _long(self, bits: int = 64) -> int:
        found = shift = 0
        while True:
            (byte,) = self._take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise NotDecodable(f"position {self._at - 1}: number too long")
        if found >> bits:
            raise NotDecodable(f"position {self._at - 1}: number out of range ({bits} bits)")
        return found >> 1 ^ -(found & 1)

    def _index(self, what: str, count: int) -> int:
        found = self._long()
        if not 0 <= found < count:
            raise NotDecodable(f"{what}: index out of range ({found}, of {count})")
        return found

    def _null(self, kind: Type) -> None:
        del kind

    def _boolean(self, kind: Type) -> bool:
        del kind
        (found,) = self._take(1)
        if found > 1:
            raise NotDecodable(f"boolean: expected 0 or 1, found {found}")
        return found == 1

    def _number(self, kind: Type) -> int:
        return self._long(32 if kind.kind == "int" else 64)

    def _float(self, kind: Type) -> float | str:
        del kind
        self._budget.spend(FORMATTED_STEPS)
        return single(struct.unpack("<f", self._take(4))[0])

    def _double(self, kind: Type) -> float | str:
        del kind
        return double(struct.unpack("<d", self._take(8))[0])

    def _bytes(self, kind: Type) -> bytes:
        del kind
        return self._take(self._long())

    def _text(self, kind: Type) -> str:
        del kind
        try:
            return self._take(self._long()).decode()
        except UnicodeDecodeError:
            raise NotDecodable(f"string: invalid UTF-8 before position {self._at}") from None

    def _fixed(self, kind: Type) -> bytes:
        return self._take(kind.size)

    def _symbol(self, kind: Type) -> str:
        symbol = kind.symbols[self._index("enum", len(kind.symbols))]
        self._budget.spend(text_cost(symbol))
        return symbol


_SIMPLE: dict[str, Callable[[_Reader, Type], Any]] = {
    "null": _Reader._null,
    "boolean": _Reader._boolean,
    "int": _Reader._number,
    "long": _Reader._number,
    "float": _Reader._float,
    "double": _Reader._double,
    "bytes": _Reader._bytes,
    "string": _Reader._text,
    "fixed": _Reader._fixed,
    "enum": _Reader._symbol,
}
"""Types without others inside."""
