"""Bytes to messages and back, by functions written from the schema: the codec of every API.

`codec(cls, version, flexible)` turns the annotations of a message class (`schema.py`) into Python source for that one
version, nested structs and all, and compiles it on first use. What the source avoids makes it fast: no branch on the
version, no call per field, neighbouring fields of fixed size in one `struct` call, and lengths of strings and arrays
read in the same call as the fields before them. Print `codec(...).source("read")` to see it.

A read value never shares memory with the frame, but for `Records`: those are a view into it.
"""

import struct
from collections.abc import Callable
from functools import cache, cached_property
from itertools import count
from typing import Any, Literal

from .errors import ProtocolError
from .schema import (
    ZERO_UUID,
    Bool,
    Bytes,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    RecordsPart,
    String,
    Type,
    UInt16,
    UInt32,
    Uuid,
    fields_of,
    nullable_since,
    since,
    tag,
    until,
)

__all__ = [
    "MAX_ELEMENTS",
    "ZERO_UUID",
    "Bool",
    "Bytes",
    "Codec",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Parts",
    "Records",
    "RecordsPart",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "codec",
    "nullable_since",
    "since",
    "tag",
    "until",
]

# An element of an array may take two bytes on the wire and a hundred in memory, so the size of a frame alone does not
# bound what reading it costs. All arrays and tagged fields of one message together may hold this many elements: several
# times what a request about every partition of a large cluster needs, read in about a second.
MAX_ELEMENTS = 1_000_000
MAX_STRING_BYTES = 0x7FFF  # Kafka's limit, for compact strings too


class Parts:
    """The pieces of a message being written: our own bytes, and between them records that are passed on untouched."""

    __slots__ = ("elements", "tail")

    def __init__(self) -> None:
        self.tail = bytearray()
        self.elements: list[Any] = [self.tail]

    def add(self, records: RecordsPart) -> bytearray:
        """Put records behind what was written so far; returns the new tail to write to."""
        self.tail = bytearray()
        self.elements += (records, self.tail)
        return self.tail


Read = Callable[[memoryview, int], tuple[Any, int]]
Write = Callable[[Any, Parts], None]


class Codec:
    """Reads and writes one message class in one version."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible

    @cached_property
    def read(self) -> Read:
        """`read(view, at) -> (value, next_at)`.

        Raises ProtocolError for bytes that are not this message: cut short, null where there is none, not UTF-8, an
        array longer than the bytes left, tagged fields of later versions. `view` must have byte format; bytes behind
        `next_at` are the caller's business.
        """
        read: Read = self._compile("read")
        return read

    @cached_property
    def write(self) -> Write:
        """`write(value, parts)` appends to `parts`. Fields that this version lacks are left out.

        Raises ValueError when the value does not fit the schema (our mistake, not the peer's); `parts` is then spoilt.
        """
        write: Write = self._compile("write")
        return write

    def source(self, direction: Literal["read", "write"]) -> str:
        """The function's Python source."""
        return self._generate(direction).text

    def _generate(self, direction: Literal["read", "write"]) -> "_Source":
        return (_Reader if direction == "read" else _Writer)(self.cls, self.version, self.flexible)

    def _compile(self, direction: Literal["read", "write"]) -> Any:
        source = self._generate(direction)
        code = compile(source.text, f"<{direction} {self.cls.__name__} v{self.version}>", "exec")
        exec(code, source.names)  # noqa: S102 - made from our own annotations; no input ever reaches it
        return source.names[direction]


_CODECS: dict[tuple[type[Any], int, bool], Codec] = {}


def codec(cls: type[Any], version: int, flexible: bool) -> Codec:
    """The codec of a message class for one version; `flexible` is KIP-482's encoding. Cached; compiled on first use."""
    key = (cls, version, flexible)
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = Codec(cls, version, flexible)
    return found


# --- what the generated functions call ------------------------------------------------------------------------------


def read_uvarint(view: memoryview, at: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte was read and had its high bit set; at most 5 bytes in all."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtocolError("a varint longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_prefix(length_plus_one: int) -> bytes:
    """The length of a compact string too long for the one-byte form."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {length_plus_one - 1} bytes; at most {MAX_STRING_BYTES} can be sent")
    return uvarint(length_plus_one)


class _Arrays(dict[int, Any]):
    """Methods of `struct.Struct` for n values of one format, kept for small n (replicas of a partition, say)."""

    def __init__(self, format: str, method: str) -> None:
        self._format, self._method = format, method

    def __missing__(self, n: int) -> Any:
        method = getattr(struct.Struct(f">{self._format * n}"), self._method)
        if n <= 16:
            self[n] = method
        return method


@cache
def _arrays(format: str, method: str) -> _Arrays:
    return _Arrays(format, method)


_UNSEALED: dict[type[Any], type[Any]] = {}


def _unsealed(cls: type[Any]) -> type[Any]:
    """A class of the same layout whose instances can be filled attribute by attribute and then become a `cls`.

    The `__init__` of a frozen dataclass goes through `object.__setattr__` for every field: four times as slow, and
    half of the time that reading a small Produce request took.
    """
    if cls not in _UNSEALED:
        _UNSEALED[cls] = type(cls.__name__, (), {"__slots__": cls.__slots__})
    return _UNSEALED[cls]


def _fail(message: str) -> None:
    raise ProtocolError(message)


# --- source, line by line --------------------------------------------------------------------------------------------


class _Source:
    """Text under construction with the names it refers to. Subclasses walk the schema."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        self.version, self.flexible = version, flexible
        self.names: dict[str, Any] = {
            "ProtocolError": ProtocolError,
            "struct_error": struct.error,
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "string_prefix": string_prefix,
            "fail": _fail,
            "MAX_ELEMENTS": MAX_ELEMENTS,
        }
        self.label = f"{cls.__name__} v{version}"
        self._lines: list[str] = []
        self._depth = 0
        self._numbers = count(1)
        self.function(cls)

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, cls: type[Any]) -> None:
        raise NotImplementedError

    def line(self, text: str, indent: int = 0) -> None:
        """One line; `indent` +1 opens a block behind it."""
        self._lines.append("    " * self._depth + text)
        self._depth += indent

    def dedent(self) -> None:
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self._numbers)}"

    def name(self, stem: str, value: Any) -> str:
        """A global name for a value that the source needs."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def struct(self, format: str, method: str) -> str:
        name = f"{method}_{format.replace('?', 'B1')}"
        self.names.setdefault(name, getattr(struct.Struct(">" + format), method))
        return name

    def fields(self, cls: type[Any]) -> tuple[list[Field], list[Field], list[int]]:
        """(plain fields, tagged fields by number, tag numbers of other versions)."""
        here = [f for f in fields_of(cls) if f.exists_in(self.version)]
        plain = [f for f in here if f.tag is None]
        tagged = sorted((f for f in here if f.tag is not None), key=lambda f: f.tag or 0)
        other = [f.tag for f in fields_of(cls) if f.tag is not None and not f.exists_in(self.version)]
        return plain, tagged if self.flexible else [], other


def _is_fixed(type: Type) -> bool:
    return type.name not in ("string", "bytes", "records", "array", "struct")


class _Reader(_Source):
    """Writes `read(view, at)`. Fixed-size values gather in `_run` until something needs them; `flush` reads them all
    with one `unpack_from`, which checks the bounds as well. Slices and counts need a check of their own."""

    def function(self, cls: type[Any]) -> None:
        self._run: list[tuple[str, str]] = []
        self.line("def read(view, at):", +1)
        self.line("size = len(view)")
        self.line("left = MAX_ELEMENTS")
        self.line("try:", +1)
        self.struct_value(cls, "value")
        self.flush()
        self.line("return value, at")
        self.dedent()
        self.line("except (struct_error, IndexError):", +1)
        self.line(f"raise ProtocolError('{self.label}: cut short') from None")
        self.dedent()
        self.line("except UnicodeDecodeError as error:", +1)
        self.line(f"raise ProtocolError(f'{self.label}: {{error}}') from None")

    def flush(self) -> None:
        if self._run:
            format = "".join(f for f, _ in self._run)
            targets = ", ".join(target for _, target in self._run)
            if format == "B":
                self.line(f"{targets} = view[at]")
            else:
                self.line(f"{targets}, = {self.struct(format, 'unpack_from')}(view, at)")
            self.line(f"at += {struct.calcsize('>' + format)}")
            self._run = []

    def struct_value(self, cls: type[Any], target: str) -> None:
        plain, tagged, other = self.fields(cls)
        variables = {field.name: self.fresh(field.name) for field in plain + tagged}
        for field in plain:
            self.value(field.type, variables[field.name], field.is_nullable_in(self.version))
        if self.flexible:
            for field in tagged:
                self.line(f"{variables[field.name]} = {self.default(field)}")
            self.tags(tagged, [variables[field.name] for field in tagged], other)
        self.flush()
        self.line(f"{target} = {self.name(cls.__name__, _unsealed(cls))}()")
        for field in fields_of(cls):
            self.line(f"{target}.{field.name} = {variables.get(field.name) or self.default(field)}")
        self.line(f"{target}.__class__ = {self.name(cls.__name__, cls)}")

    def default(self, field: Field) -> str:
        value = field.default
        return repr(value) if isinstance(value, (int, str, type(None))) else self.name("DEFAULT", value)

    def tags(self, fields: list[Field], variables: list[str], other: list[int]) -> None:
        n, number, end = self.fresh("n"), self.fresh("tag"), self.fresh("end")
        self._run.append(("B", n))
        self.flush()
        self.line(f"if {n}:", +1)
        self.long_count(n)
        self.spend(n)
        self.line(f"for _ in range({n}):", +1)
        for variable in (number, end):
            self.line(f"{variable} = view[at]; at += 1")
            self.long_count(variable)
        self.line(f"{end} += at")
        self.line(f"if {end} > size: fail('{self.label}: cut short')")
        for field, variable in zip(fields, variables, strict=True):
            self.line(f"if {number} == {field.tag}:", +1)
            self.value(field.type, variable, field.is_nullable_in(self.version))
            self.flush()
            self.line(f"if at != {end}: fail('{self.label}: tagged field {field.name} is not as long as it says')")
            self.dedent()
            self.line("else:", +1)
        if other:
            self.line(f"if {number} in {tuple(other)!r}: fail('{self.label}: a tagged field of another version')")
        self.line(f"at = {end}")
        for _ in range(len(fields) + 2):
            self.dedent()

    def long_count(self, n: str) -> None:
        self.line(f"if {n} > 127: {n}, at = read_uvarint(view, at, {n})")

    def spend(self, n: str) -> None:
        """Refuse a count that the bytes left, or the limit, cannot hold; before any memory is spent on it."""
        self.line(f"if {n} > size - at: fail('{self.label}: %d elements in %d bytes' % ({n}, size - at))")
        self.line(f"left -= {n}")
        self.line(f"if left < 0: fail('{self.label}: more than {MAX_ELEMENTS} elements')")

    def length(self, format: str, n: str, nullable: bool, target: str) -> None:
        """Read a length or count into `n` and open the block in which it is not null."""
        self._run.append(("B" if self.flexible else format, n))
        self.flush()
        if self.flexible:
            self.long_count(n)
            self.line(f"{n} -= 1")
        self.line(f"if {n} < 0:", +1)
        self.line(f"{target} = None" if nullable else f"fail('{self.label}: null {target.rstrip('0123456789')}')")
        self.dedent()
        self.line("else:", +1)

    def value(self, type: Type, target: str, nullable: bool) -> None:
        if _is_fixed(type):
            self._run.append((type.name, target))
        elif type.name == "struct":
            assert type.struct is not None
            if nullable:
                present = self.fresh("present")
                self._run.append(("b", present))
                self.flush()
                self.line(f"if {present} < 0: {target} = None")
                self.line("else:", +1)
            self.struct_value(type.struct, target)
            if nullable:
                self.dedent()
        elif type.name == "array":
            assert type.item is not None
            self.array(type.item, target, nullable)
        else:
            self.slice(type.name, target, nullable)

    def slice(self, kind: str, target: str, nullable: bool) -> None:
        n = self.fresh("n")
        self.length("h" if kind == "string" else "i", n, nullable, target)
        if kind == "string" and self.flexible:
            self.line(f"if {n} > {MAX_STRING_BYTES}: fail('{self.label}: a string of %d bytes' % {n})")
        self.line(f"{n} += at")
        self.line(f"if {n} > size: fail('{self.label}: cut short')")
        piece = f"view[at:{n}]"
        make = {"string": f"str({piece}, 'utf-8')", "bytes": f"bytes({piece})", "records": piece}[kind]
        self.line(f"{target} = {make}")
        self.line(f"at = {n}")
        self.dedent()

    def array(self, item: Type, target: str, nullable: bool) -> None:
        n = self.fresh("n")
        self.length("i", n, nullable, target)
        self.spend(n)
        if _is_fixed(item):
            width = struct.calcsize(item.name)
            if width > 1:
                self.line(f"if {n} * {width} > size - at: fail('{self.label}: cut short')")
            unpack = self.name("unpack_array_", _arrays(item.name, "unpack_from"))
            self.line(f"{target} = {unpack}[{n}](view, at)")
            self.line(f"at += {n} * {width}" if width > 1 else f"at += {n}")
        else:
            items, one = self.fresh("items"), self.fresh("item")
            self.line(f"{items} = []")
            self.line(f"for _ in range({n}):", +1)
            self.value(item, one, False)
            self.flush()
            self.line(f"{items}.append({one})")
            self.dedent()
            self.line(f"{target} = tuple({items})")
        self.dedent()


class _Writer(_Source):
    """Writes `write(value, parts)`. Fixed-size values gather in `_run` as (format, expression) and are packed with one
    call before anything of variable size."""

    def function(self, cls: type[Any]) -> None:
        self._run: list[tuple[str, str]] = []
        self.names["Fault"] = (struct.error, AttributeError, TypeError)
        self.line("def write(value, parts):", +1)
        self.line("out = parts.tail")
        self.line("try:", +1)
        self.struct_value(cls, "value")
        self.flush()
        self.line("return")
        self.dedent()
        self.line("except Fault as error:", +1)
        self.line(f"raise ValueError(f'{self.label} cannot be written: {{error}}') from error")

    def flush(self) -> None:
        if not self._run:
            return
        format = "".join(f for f, _ in self._run)
        values = [expression for f, expression in self._run if f != "x"]
        if values:
            self.line(f"out += {self.struct(format, 'pack')}({', '.join(values)})")
        else:
            self.line("out.append(0)" if len(format) == 1 else f"out += {bytes(len(format))!r}")
        self._run = []

    def struct_value(self, cls: type[Any], source: str) -> None:
        plain, tagged, _ = self.fields(cls)
        for field in plain:
            self.value(field.type, f"{source}.{field.name}", field.is_nullable_in(self.version))
        if self.flexible:
            self.tags(tagged, source)

    def tags(self, fields: list[Field], source: str) -> None:
        if not fields:
            self._run.append(("x", ""))  # a zero byte: no tagged fields
            return
        self.flush()
        sent: list[tuple[Field, str, str]] = []
        for field in fields:
            variable, differs = self.fresh(field.name), self.fresh("differs")
            self.line(f"{variable} = {source}.{field.name}")
            default = self.name("DEFAULT", field.default)
            # Defaults are mostly left as they are, and a struct is slow to compare, so identity is asked first.
            self.line(f"{differs} = {variable} is not {default} and {variable} != {default}")
            sent.append((field, variable, differs))
        outer = self.fresh("outer")
        self.line(f"out.append({' + '.join(differs for *_, differs in sent)})")
        for field, variable, differs in sent:
            self.line(f"if {differs}:", +1)
            self.line(f"{outer} = out; out = bytearray()")
            self.value(field.type, variable, field.is_nullable_in(self.version))
            self.flush()
            self.line(f"{outer} += {uvarint(field.tag or 0)!r} + uvarint(len(out)) + out")
            self.line(f"out = {outer}")
            self.dedent()

    def value(self, type: Type, source: str, nullable: bool) -> None:
        if _is_fixed(type):
            self._run.append((type.name, source))
            return
        if type.name == "struct" and not nullable:
            assert type.struct is not None
            self.struct_value(type.struct, source)
            return
        if not source.isidentifier():
            variable = self.fresh("field")
            self.line(f"{variable} = {source}")
            source = variable
        if nullable:
            before = self._run
            self.flush_into_branch(type, source)
            self._run = []
            self.line("else:", +1)
            self._run = before
            self.present(type, source)
            self.flush()
            self.dedent()
        else:
            self.present(type, source)

    def flush_into_branch(self, type: Type, source: str) -> None:
        """The branch that writes null; the waiting run goes out together with the null length."""
        self._run = list(self._run)
        self.line(f"if {source} is None:", +1)
        if type.name == "struct":
            self._run.append(("b", "-1"))
        elif self.flexible:
            self._run.append(("x", ""))
        else:
            self._run.append(("h" if type.name == "string" else "i", "-1"))
        self.flush()
        self.dedent()

    def present(self, type: Type, source: str) -> None:
        """Write a value that is not null."""
        if type.name == "struct":
            assert type.struct is not None
            self._run = [*self._run, ("b", "1")]
            self.struct_value(type.struct, source)
            return
        if type.name == "string":
            raw = self.fresh("raw")
            self.line(f"{raw} = {source}.encode()")
            source = raw
        self.length(type.name, source)
        if type.name == "array":
            assert type.item is not None
            self.array(type.item, source)
        elif type.name == "records":
            self.line(f"if len({source}): out = parts.add({source})")
        else:
            self.line(f"out += {source}")

    def length(self, kind: str, source: str) -> None:
        if not self.flexible:
            self._run = [*self._run, ("h" if kind == "string" else "i", f"len({source})")]
            self.flush()
            return
        self.flush()
        n = self.fresh("n")
        self.line(f"{n} = len({source}) + 1")
        prefix = "string_prefix" if kind == "string" else "uvarint"
        self.line(f"if {n} < 128: out.append({n})")
        self.line(f"else: out += {prefix}({n})")

    def array(self, item: Type, source: str) -> None:
        if _is_fixed(item):
            pack = self.name("pack_array_", _arrays(item.name, "pack"))
            self.line(f"if {source}: out += {pack}[len({source})](*{source})")
            return
        one = self.fresh("item")
        self.line(f"for {one} in {source}:", +1)
        self.value(item, one, False)
        self.flush()
        self.dedent()
