"""Whether a Protobuf schema can read what another one wrote, as Confluent's registry judges it.

Fields are compared by number. What is on the wire decides: e.g. names may change, and int32, uint32, int64, uint64, bool
and enums are read as each other. Changes in enums, services, options and extensions are always compatible.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....protocol.schemas.proto import SCALARS, Field, File, OneOf, Type
from ....protocol.schemas.values import DIFFERENCE_STEPS, Budget, Path, Schema, Walk, path_text, run_walk

_GROUPS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed"),
    **dict.fromkeys(("string", "bytes"), "string"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
"""Scalar type -> the group of types that are read as each other."""
_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package in the {reader} schema is not the one in the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema does not have the message at path '{path}' of the {writer} schema",
    "FIELD_KIND_CHANGED": "The field at path '{path}' is a scalar, a message or a map in the {reader} schema, and something else in the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The scalar type of the field at path '{path}' in the {reader} schema does not read the one in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The message of the field at path '{path}' in the {reader} schema differs from the one in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of the number at path '{path}' in the {reader} schema differs from the one in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "The required field at path '{path}' in the {reader} schema is not in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The required field at path '{path}' in the {writer} schema is not in the {reader} schema",
    "ONEOF_FIELD_REMOVED": "The field of a oneof at path '{path}' in the {writer} schema is not in the {reader} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Several fields of the oneof at path '{path}' in the {reader} schema are outside it in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the oneof at path '{path}' in the {reader} schema is outside it in the {writer} schema",
}


def find_differences(reader: Schema, writer: Schema, reader_word: str, writer_word: str) -> list[str]:
    """Return the differences because of which `reader` cannot read what `writer` wrote.

    Raises:
        SchemaTooLarge: The schemas are too large.
    """
    comparison = _Comparison(reader.parsed, writer.parsed, reader_word, writer_word)
    run_walk(comparison.files(), comparison.budget)
    return comparison.found


class _Comparison:
    """Collects the differences of two files. Methods take what the writer has first, then what the reader has."""

    def __init__(self, reader: File, writer: File, reader_word: str, writer_word: str) -> None:
        self._reader, self._writer = reader, writer
        self._words = {"reader": reader_word, "writer": writer_word}
        self.budget = Budget()
        self.found: list[str] = []
        self._results: dict[tuple[int, int], bool] = {}
        """Whether two messages are compatible, by identity; those that are being compared are assumed to be."""

    def files(self) -> Walk[None]:
        if self._reader.package != self._writer.package:
            self._add("PACKAGE_CHANGED", (None, "#/"))
        yield self._types(self._writer.types, self._reader.types, (None, "#"))

    def _types(self, old: Iterable[Type], new: Iterable[Type], path: Path) -> Walk[None]:
        known = {each.name: each for each in new if not each.is_enum}
        for each in old:
            self.budget.spend(1)
            where = (path, f"/{each.name}")
            if each.name in known:
                yield self._messages(each, known[each.name], where)
            elif not each.is_enum:
                self._add("MESSAGE_REMOVED", where)

    def _messages(self, old: Type, new: Type, path: Path) -> Walk[bool]:
        """Return whether two messages are compatible, and add their differences when they are compared first."""
        pair = (id(old), id(new))
        if pair not in self._results and not (old.is_known and new.is_known):
            self._results[pair] = True
            before = len(self.found)
            yield self._fields(old, new, path)
            yield self._types(old.types, new.types, path)
            self._results[pair] = len(self.found) == before
        return self._results.get(pair, True)

    def _fields(self, old: Type, new: Type, path: Path) -> Walk[None]:
        was, now = _by_number(old), _by_number(new)
        self.budget.spend(len(was) + len(now))
        names = {oneof.name for oneof in new.oneofs}
        deleted = {
            oneof.name
            for oneof in old.oneofs
            if oneof.name not in names and not any(each.number in now for each in oneof.fields)
        }
        for oneof in new.oneofs:
            self._moves(oneof, was, (path, f"/{oneof.name}"))
        for number in sorted(was.keys() | now.keys()):
            where = (path, f"/{number}")
            if number not in now:
                gone, oneof_name = was[number]
                if oneof_name:
                    if oneof_name not in deleted:
                        self._add("ONEOF_FIELD_REMOVED", (path, f"/{oneof_name}/{number}"))
                elif gone.label == "required":
                    self._add("REQUIRED_FIELD_REMOVED", where)
            elif number not in was:
                if now[number][0].label == "required":
                    self._add("REQUIRED_FIELD_ADDED", where)
            else:
                inside = now[number][1]
                yield self._field(was[number][0], now[number][0], (path, f"/{inside}/{number}") if inside else where)

    def _moves(self, oneof: OneOf, was: dict[int, tuple[Field, str]], path: Path) -> None:
        """Report fields that exclude each other now: in old data, several of them may be set."""
        before = [was[each.number] for each in oneof.fields if each.number in was]
        alone = sum(not name for _, name in before)
        if alone + len({name for _, name in before if name}) > 1:
            self._add("MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF", path)

    def _field(self, old: Field, new: Field, path: Path) -> Walk[None]:
        if _kind(old.type, old) != _kind(new.type, new):
            self._add("FIELD_KIND_CHANGED", path)
        elif old.type == "map":
            self._scalars(old.key, new.key, path)
            if _kind(old.value, old) != _kind(new.value, new):
                self._add("FIELD_KIND_CHANGED", path)
            elif _kind(old.value, old) == "scalar":
                self._scalars(_scalar(old.value), _scalar(new.value), path)
            else:
                yield self._named(old, new, path)
        elif _kind(old.type, old) == "message":
            yield self._named(old, new, path)
        elif (
            self._scalars(_scalar(old.type), _scalar(new.type), path)
            and _GROUPS[_scalar(old.type)] != "string"
            and old.label
            and new.label
            and old.label != new.label
        ):
            self._add("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _scalars(self, old: str, new: str, path: Path) -> bool:
        """Return whether a scalar type is read as another one."""
        if _GROUPS[old] != _GROUPS[new]:
            self._add("FIELD_SCALAR_KIND_CHANGED", path)
            return False
        return True

    def _named(self, old: Field, new: Field, path: Path) -> Walk[None]:
        """Compare the messages of two fields: by name without package, then by content."""
        assert old.target is not None and new.target is not None
        names = [each.full_name.removeprefix(f"{each.package}.") for each in (old.target, new.target)]
        if names[0] != names[1] or not (
            yield self._messages(old.target, new.target, (None, f"#/{names[0].replace('.', '/')}"))
        ):
            self._add("FIELD_NAMED_TYPE_CHANGED", path)

    def _add(self, kind: str, path: Path) -> None:
        self.budget.spend(DIFFERENCE_STEPS)
        text = _DESCRIPTIONS[kind].format(path=path_text(path), **self._words)
        self.found.append(f'{{errorType:"{kind}", description:"{text}"}}')


def _by_number(message: Type) -> dict[int, tuple[Field, str]]:
    """Return the fields of a message with the name of their oneof, empty for none."""
    found = {each.number: (each, "") for each in message.fields}
    return found | {each.number: (each, oneof.name) for oneof in message.oneofs for each in oneof.fields}


def _kind(name: str, each: Field) -> str:
    if name == "map":
        return "map"
    return "scalar" if name in SCALARS or (each.target is not None and each.target.is_enum) else "message"


def _scalar(name: str) -> str:
    """Return the scalar type as which a scalar or an enum is written."""
    return name if name in SCALARS else "int32"
