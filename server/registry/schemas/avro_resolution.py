"""Whether a reader with one Avro schema can read what a writer with another one wrote: the rules of schema resolution.

Names are compared without namespace, and logical types not at all, as Apache Avro for Java does.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.schemas.avro import Type
from ....protocol.schemas.values import DIFFERENCE_STEPS, Comparison, Path, Schema, Walk, cut, path_text

_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Type of the reader -> types of the writer that it can read in addition to its own."""


_DESCRIPTIONS = {
    "TYPE_MISMATCH": "The type at path '{path}' in the {reader} schema does not match with the {writer} schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "FIXED_SIZE_MISMATCH": "The size at path '{path}' in the {reader} schema does not match with the {writer} schema",
    "MISSING_ENUM_SYMBOLS": (
        "The {reader} schema is missing enum symbols '{info}' at path '{path}' which are in the {writer} schema"
    ),
    "MISSING_UNION_BRANCH": (
        "The {reader} schema is missing a type inside a union at path '{path}' which is in the {writer} schema"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{info}' at path '{path}' in the {reader} schema has no default value "
        "and is missing in the {writer} schema"
    ),
    "AMBIGUOUS_ALIASES": "The field at path '{path}' in the {reader} schema matches several of the {writer} schema",
}
"""Kind of difference -> its description. The last kind is our own; Apache Avro for Java raises an exception for it."""


def find_differences(reader: Schema, writer: Schema, reader_word: str, writer_word: str) -> list[str]:
    """Return the differences because of which `reader` cannot read what `writer` wrote.

    Raises:
        SchemaTooLarge: The schemas are too large.
    """
    return _Comparison(reader_word, writer_word).run(reader.parsed.root, writer.parsed.root, None)


class _Comparison(Comparison):
    """Compares types. Methods take the reader's type first."""

    def __init__(self, reader_word: str, writer_word: str) -> None:
        super().__init__(reader_word, writer_word)
        self._branches: dict[int, dict[tuple[str, str], Type]] = {}

    def compare(self, reader: Type, writer: Type, path: Path) -> Walk[list[str]]:
        found: list[str] = []
        if writer.kind == "union":
            for index, branch in enumerate(writer.branches):
                inner = yield self.walk(reader, branch, path if reader.kind == "union" else (path, f"/{index}"))
                if inner and reader.kind == "union":
                    inner = [self._missing_branch(branch, (path, f"/{index}"))]
                found += inner
            return found
        if reader.kind == "union":
            for branch in self._likely_first(reader, writer):
                inner = yield self.walk(branch, writer, path)
                if not inner:
                    return []
            return [self._missing_branch(writer, path)]
        if {reader.kind, writer.kind} <= {"record", "error"}:
            found += yield self._records(reader, writer, path)
            return found
        if reader.kind != writer.kind:
            return [] if writer.kind in _PROMOTIONS.get(reader.kind, ()) else [self._mismatch(reader, writer, path)]
        match reader.kind:
            case "array" | "map":
                inner_path = (path, "/items" if reader.kind == "array" else "/values")
                found += yield self.walk(reader.branches[0], writer.branches[0], inner_path)
            case "enum":
                found += self._names(reader, writer, path)
                self.budget.spend(len(reader.symbols) + len(writer.symbols))
                known = set(reader.symbols)
                missing = ", ".join(symbol for symbol in writer.symbols if symbol not in known)
                if missing and reader.default is None:
                    found.append(self._difference("MISSING_ENUM_SYMBOLS", (path, "/symbols"), f"[{missing}]"))
            case "fixed":
                found += self._names(reader, writer, path)
                if reader.size != writer.size:
                    info = f"expected: {writer.size}, found: {reader.size}"
                    found.append(self._difference("FIXED_SIZE_MISMATCH", (path, "/size"), info))
        return found

    def _records(self, reader: Type, writer: Type, path: Path) -> Walk[list[str]]:
        self.budget.spend(len(reader.fields) + len(writer.fields) + sum(len(each.aliases) for each in reader.fields))
        found = self._names(reader, writer, path)
        fields = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            where = (path, f"/fields/{index}")
            matches = [name for name in dict.fromkeys([each.name, *each.aliases]) if name in fields]
            if len(matches) > 1:
                found.append(self._difference("AMBIGUOUS_ALIASES", where, ", ".join(matches)))
            elif matches:
                found += yield self.walk(each.type, fields[matches[0]].type, (where, "/type"))
            elif not each.has_default:
                found.append(self._difference("READER_FIELD_MISSING_DEFAULT_VALUE", where, each.name))
        return found

    def _difference(self, kind: str, path: Path, info: str) -> str:
        self.budget.spend(DIFFERENCE_STEPS)
        info = cut(info)
        reader, writer = self.words
        words = {"path": path_text(path) or "/", "reader": reader, "writer": writer, "info": info}
        return f"{{errorType:'{kind}', description:'{_DESCRIPTIONS[kind].format(**words)}', additionalInfo:'{info}'}}"

    def _likely_first(self, union: Type, writer: Type) -> Iterator[Type]:
        """Yield the branches of a union, first the one of the writer's name: else large unions take quadratic time."""
        if id(union) not in self._branches:
            self._branches[id(union)] = {(branch.kind, branch.short_name): branch for branch in union.branches}
        likely = self._branches[id(union)].get((writer.kind, writer.short_name))
        if likely:
            yield likely
        yield from (branch for branch in union.branches if branch is not likely)

    def _names(self, reader: Type, writer: Type, path: Path) -> list[str]:
        if reader.short_name == writer.short_name:
            return []
        self.budget.spend(len(reader.aliases))
        if writer.name in reader.aliases:
            return []
        return [self._difference("NAME_MISMATCH", (path, "/name"), f"expected: {writer.name}")]

    def _mismatch(self, reader: Type, writer: Type, path: Path) -> str:
        info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return self._difference("TYPE_MISMATCH", path, info)

    def _missing_branch(self, writer: Type, path: Path) -> str:
        info = f"reader union lacking writer type: {writer.kind.upper()}"
        return self._difference("MISSING_UNION_BRANCH", path, info)
