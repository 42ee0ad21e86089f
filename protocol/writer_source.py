"""Generator of the source of `write(value, parts, most_elements, most_bytes)` for one message class and version.

Fixed-size values are collected in a run and packed with one call before anything of variable size. For `index: Int32,
name: String | None` in flexible encoding:

    field1 = value.name
    if field1 is None:
        out += pack_ix(value.index)
    else:
        out += pack_i(value.index)
        raw2 = field1.encode()
        n3 = len(raw2) + 1
        if n3 < 128: out.append(n3)
        else: out += string_prefix(n3)
        out += raw2
    out += b'\\x00'

(`x` in a format is a zero byte: a null, or "no tagged fields".) Records are added to `parts` unchanged, and a new `out`
follows them. Elements are counted per array, before they are written. Bytes are counted within each `out`: after each element,
or after the whole array if its elements have a fixed size.
"""

import struct
from typing import Any

from .codegen import MAX_STRING_BYTES, NO_LIMIT, Source, array_methods, is_fixed, split_fields, uvarint
from .errors import LargeMessageError
from .schema import Field, Type


class WriterSource(Source):
    """The text and names of a `write` function."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names |= {
            "uvarint": uvarint,
            "string_prefix": _string_prefix,
            "LargeMessageError": LargeMessageError,
            "NO_LIMIT": NO_LIMIT,
            "Misfit": (struct.error, AttributeError, TypeError),
        }
        self._run: list[tuple[str, str]] = []  # (format, expression) not written yet
        self.line("def write(value, parts, most_elements=NO_LIMIT, most_bytes=NO_LIMIT):", +1)
        self.line("out = parts[-1]")
        self.line("left = most_elements")
        self.line("try:", +1)
        self._struct(cls, "value")
        self._flush()
        self.line("return")
        self.dedent()
        self.line("except Misfit as error:", +1)
        self.line(f"raise ValueError(f'{self.label} cannot be written: {{error}}') from error")

    def _flush(self) -> None:
        """Write the line that packs the run."""
        if not self._run:
            return
        format = "".join(one for one, _ in self._run)
        values = [expression for one, expression in self._run if one != "x"]
        if values:
            self.line(f"out += {self.struct(format, 'pack')}({', '.join(values)})")
        else:
            self.line(f"out += {bytes(len(format))!r}")
        self._run = []

    def _struct(self, cls: type[Any], source: str) -> None:
        plain, tagged, _ = split_fields(cls, self.version, self.flexible)
        for field in plain:
            self._value(field.type, f"{source}.{field.name}", field.is_nullable_in(self.version))
        if tagged:
            self._tags(tagged, source)
        elif self.flexible:
            self._run.append(("x", ""))

    def _tags(self, fields: list[Field], source: str) -> None:
        """Write the tagged fields at the end of a struct (KIP-482): those that differ from their defaults, by number."""
        self._flush()
        sent: list[tuple[Field, str, str]] = []
        for field in fields:
            variable, differs = self.fresh(field.name), self.fresh("differs")
            default = self.name("DEFAULT", field.default)
            self.line(f"{variable} = {source}.{field.name}")
            # Most fields have their defaults, and comparing structs is slow, so identity is checked first.
            self.line(f"{differs} = {variable} is not {default} and {variable} != {default}")
            sent.append((field, variable, differs))
        self.line(f"out.append({' + '.join(differs for *_, differs in sent)})")
        outer = self.fresh("outer")
        for field, variable, differs in sent:
            self.line(f"if {differs}:", +1)
            self.line(f"{outer} = out")
            self.line("out = bytearray()")
            self._value(field.type, variable, field.is_nullable_in(self.version))
            self._flush()
            self.line(f"{outer} += {uvarint(field.tag or 0)!r} + uvarint(len(out)) + out")
            self.line(f"out = {outer}")
            self.dedent()

    def _value(self, type: Type, source: str, nullable: bool) -> None:
        if is_fixed(type):
            self._run.append((type.name, source))
        elif type.struct is not None and not nullable:
            self._struct(type.struct, source)
        else:
            if not source.isidentifier():
                field = self.fresh("field")
                self.line(f"{field} = {source}")
                source = field
            if nullable:
                self._nullable(type, source)
            else:
                self._sized(type, source)

    def _nullable(self, type: Type, source: str) -> None:
        """Write two branches; each begins with the run so far, so that null or a length is packed together with it."""
        run = self._run
        self.line(f"if {source} is None:", +1)
        if type.struct is not None:
            self._run = [*run, ("b", "-1")]
        elif self.flexible:
            self._run = [*run, ("x", "")]
        else:
            self._run = [*run, (self._length_format(type), "-1")]
        self._flush()
        self.dedent()
        self.line("else:", +1)
        if type.struct is not None:
            self._run = [*run, ("b", "1")]
            self._struct(type.struct, source)
        else:
            self._run = run
            self._sized(type, source)
        self._flush()
        self.dedent()

    def _length_format(self, type: Type) -> str:
        return "h" if type.name == "string" else "i"

    def _sized(self, type: Type, source: str) -> None:
        """Write a string, bytes, records or an array, after its length."""
        if type.name == "string":
            raw = self.fresh("raw")
            self.line(f"{raw} = {source}.encode()")
            source = raw
        if self.flexible:
            n = self.fresh("n")
            self._flush()
            self.line(f"{n} = len({source}) + 1")
            count = f"{n} - 1"
            self.line(f"if {n} < 128: out.append({n})")
            self.line(f"else: out += {'string_prefix' if type.name == 'string' else 'uvarint'}({n})")
        else:
            count = f"len({source})"
            if type.item is not None or type.name == "records":
                count = self.fresh("n")
                self.line(f"{count} = len({source})")
            self._run.append((self._length_format(type), count))
            self._flush()
        if type.item is not None:
            self._items(type.item, source, count)
        elif type.name == "records":
            self.line(f"if {count}:", +1)
            self.line("out = bytearray()")
            self.line(f"parts += ({source}, out)")
            self.dedent()
        else:
            if type.name == "bytes":
                self._refuse(f"len({source}) > most_bytes")
            self.line(f"out += {source}")

    def _refuse(self, condition: str) -> None:
        self.line(f"if {condition}: raise LargeMessageError('{self.label}')")

    def _items(self, item: Type, source: str, count: str) -> None:
        if is_fixed(item):
            pack = self.name("pack_array", array_methods(item.name, "pack"))
            self.line(f"if {source}: out += {pack}[{count}](*{source})")
        else:
            one = self.fresh("item")
            self.line(f"left -= {count}")
            self._refuse("left < 0")
            self.line(f"for {one} in {source}:", +1)
            self._value(item, one, False)
            self._flush()
            if self._is_small(item):
                self.dedent()
                self._refuse("len(out) > most_bytes")
            else:
                self._refuse("len(out) > most_bytes")
                self.dedent()

    def _is_small(self, item: Type) -> bool:
        """Whether an element has a fixed size: then their number bounds the bytes, which are counted after all of them."""
        if item.struct is None:
            return False
        plain, tagged, _ = split_fields(item.struct, self.version, self.flexible)
        return not tagged and all(is_fixed(field.type) for field in plain)


def _string_prefix(length_plus_one: int) -> bytes:
    """Encode the length of a compact string that is too long for one byte."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise ValueError(f"string too large ({length_plus_one - 1} bytes, limit {MAX_STRING_BYTES})")
    return uvarint(length_plus_one)
