"""Generator of the source of `read(view, at, most)` for one message class and version.

Fixed-size values are collected in a run until one is needed. Then one `unpack_from` reads them all, and checks the
bounds. The length of a string or the count of an array is part of the run before it. For `index: Int32,
records: Records | None` in flexible encoding:

    index1, n2, = unpack_from_iB(view, at)
    at += 5
    if n2 > 127: n2, at = read_uvarint(view, at, n2)
    n2 -= 1
    if n2 < 0:
        records3 = None
    else:
        n2 += at
        if n2 > size: fail('… cut short')
        records3 = view[at:n2]
        at = n2
"""

import struct
from typing import Any

from .codegen import (
    LENIENT_ELEMENT_BYTES,
    LENIENT_ELEMENTS,
    LONG_ARRAY,
    MAX_BYTES_BYTES,
    MAX_STRING_BYTES,
    Source,
    array_methods,
    fail,
    is_fixed,
    java_text,
    read_uvarint,
    split_fields,
)
from .errors import LargeMessageError, ProtocolError
from .schema import Field, Type, fields_of, unsealed


class ReaderSource(Source):
    """The text and names of a `read` function."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names |= {
            "ProtocolError": ProtocolError,
            "LargeMessageError": LargeMessageError,
            "struct_error": struct.error,
            "read_uvarint": read_uvarint,
            "fail": fail,
            "java_text": java_text,
        }
        self._run: list[tuple[str, str]] = []  # (format, variable) not read yet
        self.line("def read(view, at, most):", +1)
        self.line("size = len(view)")
        self.line("left = most")
        self.line("try:", +1)
        self._struct(cls, "value")
        self.line("return value, at, left")
        self.dedent()
        self.line("except (struct_error, IndexError):", +1)
        self.line(f"raise ProtocolError('{self.label}: cut short') from None")
        self.dedent()
        self.line("except UnicodeDecodeError as error:", +1)
        self.line(f"raise ProtocolError(f'{self.label}: {{error}}') from None")

    def _flush(self) -> None:
        """Write the line that reads the run."""
        if not self._run:
            return
        format = "".join(one for one, _ in self._run)
        variables = ", ".join(variable for _, variable in self._run)
        if format == "B":
            self.line(f"{variables} = view[at]")
        else:
            self.line(f"{variables}, = {self.struct(format, 'unpack_from')}(view, at)")
        self.line(f"at += {struct.calcsize('>' + format)}")
        self._run = []

    def _struct(self, cls: type[Any], target: str) -> None:
        plain, tagged, foreign = split_fields(cls, self.version, self.flexible)
        variables = {field.name: self.fresh(field.name) for field in plain + tagged}
        for field in plain:
            self._value(field.type, variables[field.name], field.is_nullable_in(self.version))
        if self.flexible:
            for field in tagged:
                self.line(f"{variables[field.name]} = {self._default(field)}")
            self._tags([(field, variables[field.name]) for field in tagged], foreign)
        self._flush()
        self.line(f"{target} = {self.name(cls.__name__, unsealed(cls))}()")
        for field in fields_of(cls):
            self.line(f"{target}.{field.name} = {variables.get(field.name) or self._default(field)}")
        self.line(f"{target}.__class__ = {self.name(cls.__name__, cls)}")

    def _default(self, field: Field) -> str:
        value = field.default
        return repr(value) if isinstance(value, (int, str, type(None))) else self.name("DEFAULT", value)

    def _tags(self, fields: list[tuple[Field, str]], foreign: list[int]) -> None:
        """Write the reading of the tagged fields at the end of a struct (KIP-482). Unknown fields are skipped. One that
        Kafka defines only for other versions is refused, as in Kafka."""
        n, number, end = self.fresh("n"), self.fresh("tag"), self.fresh("end")
        self._run.append(("B", n))
        self._flush()
        self.line(f"if {n}:", +1)
        self._finish_uvarint(n)
        self._spend(n)
        self.line(f"for _ in range({n}):", +1)
        for variable in (number, end):
            self.line(f"{variable} = view[at]")
            self.line("at += 1")
            self._finish_uvarint(variable)
        self.line(f"{end} += at")
        self.line(f"if {end} > size: fail('{self.label}: cut short')")
        for field, variable in fields:
            self.line(f"if {number} == {field.tag}:", +1)
            self._value(field.type, variable, field.is_nullable_in(self.version))
            self._flush()
            self.line(
                f"if at != {end}: fail('{self.label}: length of tagged field {field.name} does not match its content')"
            )
            self.line("continue")
            self.dedent()
        if foreign:
            self.line(f"if {number} in {tuple(foreign)}: fail('{self.label}: tagged field of a different version')")
        self.line(f"at = {end}")
        self.dedent()
        self.dedent()

    def _finish_uvarint(self, variable: str) -> None:
        self.line(f"if {variable} > 127: {variable}, at = read_uvarint(view, at, {variable})")

    def _spend(self, n: str) -> None:
        """Write the check of a count against the bytes left and the limit, before memory is used for it. An element
        takes at least one byte: no struct is empty."""
        self.line(f"if {n} > size - at: fail('{self.label}: %d elements in %d bytes' % ({n}, size - at))")
        self._spend_left(n)

    def _spend_left(self, elements: str) -> None:
        self.line(f"left -= {elements}")
        self.line(f"if left < 0: raise LargeMessageError(f'{self.label}: more than {{most}} elements')")

    def _length(self, format: str, n: str, nullable: bool, target: str) -> None:
        """Write the reading of a length or count into `n`, and open the block for a value that is not null. As in Kafka,
        any negative length means null."""
        self._run.append(("B" if self.flexible else format, n))
        self._flush()
        if self.flexible:
            self._finish_uvarint(n)
            self.line(f"{n} -= 1")
        self.line(f"if {n} < 0:", +1)
        self.line(f"{target} = None" if nullable else f"fail('{self.label}: null {target.rstrip('0123456789')}')")
        self.dedent()
        self.line("else:", +1)

    def _value(self, type: Type, target: str, nullable: bool) -> None:
        if is_fixed(type):
            self._run.append((type.name, target))
        elif type.struct is not None:
            if nullable:
                self._nullable_struct(type.struct, target)
            else:
                self._struct(type.struct, target)
        elif type.item is not None:
            self._array(type.item, target, nullable)
        else:
            self._slice(type.name, target, nullable)

    def _nullable_struct(self, cls: type[Any], target: str) -> None:
        present = self.fresh("present")
        self._run.append(("b", present))
        self._flush()
        self.line(f"if {present} < 0:", +1)
        self.line(f"{target} = None")
        self.dedent()
        self.line("else:", +1)
        self._struct(cls, target)
        self.dedent()

    def _slice(self, kind: str, target: str, nullable: bool) -> None:
        """Write the reading of a string, bytes or records. The bounds need a check, as a slice past the end is only shorter."""
        n = self.fresh("n")
        self._length("h" if kind == "string" else "i", n, nullable, target)
        if kind == "string" and self.flexible:
            self.line(
                f"if {n} > {MAX_STRING_BYTES}: fail('{self.label}: string too large (%d bytes, limit {MAX_STRING_BYTES})' % {n})"
            )
        self.line(f"{n} += at")
        self.line(f"if {n} > size: fail('{self.label}: cut short')")
        if kind == "bytes":
            too_long = f"'{self.label}: field too large (%d bytes, limit {MAX_BYTES_BYTES})' % ({n} - at)"
            self.line(f"if {n} - at > {MAX_BYTES_BYTES}: fail({too_long})")
        piece = f"view[at:{n}]"
        made = {"string": f"str({piece}, 'utf-8')", "bytes": f"bytes({piece})", "records": piece}[kind]
        if kind == "string":
            self.line("try:", +1)
        self.line(f"{target} = {made}")
        if kind == "string":
            self.dedent()
            self.line("except UnicodeDecodeError:", +1)
            self._spend_left(f"{LENIENT_ELEMENTS} + ({n} - at) // {LENIENT_ELEMENT_BYTES}")
            self.line(f"{target} = java_text({piece})")
            self.dedent()
        self.line(f"at = {n}")
        self.dedent()

    def _array(self, item: Type, target: str, nullable: bool) -> None:
        n = self.fresh("n")
        self._length("i", n, nullable, target)
        self._spend(n)
        if is_fixed(item):
            width = struct.calcsize(">" + item.name)
            self.line(f"if {n} * {width} > size - at: fail('{self.label}: cut short')")
            unpack = self.name("unpack_array", array_methods(item.name, "unpack_from"))
            self.line(f"{target} = {unpack}[{n}](view, at)")
            self.line(f"at += {n} * {width}")
        else:
            items, one = self.fresh("items"), self.fresh("item")
            self.line(f"{items} = []")
            self.line(f"for _ in range({n}):", +1)
            self._value(item, one, False)
            self._flush()
            self.line(f"{items}.append({one})")
            self.dedent()
            self.line(f"{target} = {items} if {n} >= {LONG_ARRAY} else tuple({items})")
        self.dedent()
