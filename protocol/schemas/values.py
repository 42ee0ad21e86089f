"""Basics of all kinds of schemas: the parsed schema, its bounds, JSON texts, walks without deep recursion."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

MAX_TEXT_BYTES = 1 << 20
"""A record of `_schemas` has at most 1 MB by default, in Apache Kafka as here."""
MAX_DEPTH = 200
"""Levels of brackets in a schema's text."""
MAX_NAMES = 20_000
"""Names in one JSON object or list of names: to sort more of them would hold the interpreter above 20 ms."""
MAX_NAME_CHARACTERS = 1_000
"""Characters of a name with its namespace or package, or of a URI: a name may be part of those of all inside."""
MAX_ELEMENTS = 60_000
"""Commas and brackets in a text of JSON, those in strings as well: about twenty thousand fields.

More would take Python's collector, which stops all threads, more than 20 ms.
"""
MAX_REFERENCES = 1_000
"""Schemas that one schema reaches by references, however indirectly."""
MAX_REACHED_BYTES = 4 * MAX_TEXT_BYTES
"""Texts of a schema and of all that it reaches."""
MAX_STEPS = 250_000
"""Types, fields and pairs of these that one walk looks at: about a second of one core."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Shared by all parts of schemas that have no attributes: most have none."""
_READ_AT_ONCE_BYTES = 32 * 1024


class InvalidSchema(ValueError):
    """The text is not a schema of its kind, or exceeds a bound. The message is for the error 42201."""


class SchemaTooLarge(Exception):
    """A walk exceeds `MAX_STEPS`."""


DIFFERENCE_STEPS = 20
"""Cost of a difference: its message takes memory."""


SHORT_STEPS, SHORT_CHARACTERS = 5_000, 16 << 10
"""Limits of a check that takes less than a tenth of a second: its steps, and the characters of all its schemas."""


class NotShortError(Exception):
    """A check inside `short` exceeds its steps. It has changed nothing."""


class Budget:
    """Steps that are left to one check of schemas, whose work may be a power of their size."""

    __slots__ = ("_error", "_left", "_outer")

    def __init__(self, steps: int = MAX_STEPS, error: type[Exception] = SchemaTooLarge) -> None:
        self._left = steps
        self._error = error
        self._outer = _SHORT.get()

    @property
    def left(self) -> int:
        """The steps that are left."""
        return max(0, self._left)

    def spend(self, steps: int) -> None:
        """Count steps; `SchemaTooLarge` if none is left, NotShortError if none is left to `short`."""
        self._left -= steps
        if self._left < 0:
            raise self._error
        if self._outer is not None:
            self._outer.spend(steps)


_SHORT: ContextVar[Budget | None] = ContextVar("short", default=None)


@contextmanager
def short(steps: int = SHORT_STEPS) -> Iterator[None]:
    """Allow all checks in the block this number of steps together; then they raise NotShortError."""
    token = _SHORT.set(Budget(steps, NotShortError))
    try:
        yield
    finally:
        _SHORT.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A parsed schema. Two schemas are the same if kind, `canonical` and references are equal."""

    kind: str
    text: str
    """The text that a client sent."""
    canonical: str
    """The text that the registry stores, without differences of layout."""
    normalized: str
    """Like `canonical`, without differences of order that have no meaning."""
    references: Mapping[str, Schema] = field(repr=False)
    """Directly referenced schemas by the name in the reference."""
    parsed: Any = field(repr=False)
    """A value of the kind's own module."""


def encoded(text: str) -> bytes:
    """Return a text in UTF-8; `InvalidSchema` if it has half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"schema: invalid Unicode ({error.reason} at character {error.start})") from None


def check_size(text: str) -> int:
    """Return how many bytes a text has; `InvalidSchema` if these are too many."""
    size_bytes = len(encoded(text))
    if size_bytes > MAX_TEXT_BYTES:
        raise InvalidSchema(f"schema: too large ({size_bytes} bytes, limit {MAX_TEXT_BYTES})")
    return size_bytes


def check_bounds(text: str, references: Mapping[str, Schema]) -> None:
    """Raise `InvalidSchema` if a schema or all that it reaches is too large."""
    size_bytes = check_size(text)
    for count, (_, each) in enumerate(reached(references), 1):
        size_bytes += len(each.text)
        if count > MAX_REFERENCES or size_bytes > MAX_REACHED_BYTES:
            raise InvalidSchema(
                f"references: too many ({count} schemas of {size_bytes} bytes reached, "
                f"limit {MAX_REFERENCES} schemas of {MAX_REACHED_BYTES} bytes)"
            )


def reached(references: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """Yield each schema that is reached by references, those first that others need.

    Of several schemas with one name the first counts, as in Confluent's registry.
    """
    seen: set[str] = set()
    stack = [iter(references.items())]
    path: list[tuple[str, Schema]] = []
    while stack:
        for name, schema in stack[-1]:
            if name not in seen:
                seen.add(name)
                path.append((name, schema))
                stack.append(iter(schema.references.items()))
                break
        else:
            stack.pop()
            if path:
                yield path.pop()


Result = TypeVar("Result")
Walk = Generator["Walk[Any]", Any, Result]
"""A function on a tree or graph: it yields calls of itself, and is sent their results."""


def run_walk(walk: Walk[Result], budget: Budget) -> Result:
    """Return the result of a walk, however deep it goes: Python allows about a thousand nested calls.

    Raises:
        SchemaTooLarge: The budget is spent: each call costs one step, and more if the walk says so.
    """
    stack: list[Walk[Any]] = [walk]
    found: Any = None
    while stack:
        try:
            call = stack[-1].send(found)
        except StopIteration as end:
            stack.pop()
            found = end.value
        else:
            budget.spend(1)
            stack.append(call)
            found = None
    return found  # type: ignore[no-any-return]


Path = tuple["Path", str] | None
"""Steps from the root of a schema, the last one outside: texts of deep paths would take quadratic time and memory."""


class Comparison:
    """Compares pairs of types, which may be recursive.

    A pair that is being compared is assumed to be compatible. If it turns out not to be, other pairs may have been
    judged by a wrong assumption, and a comparison without differences is repeated with what is known.
    """

    def __init__(self, reader_word: str, writer_word: str) -> None:
        self.words = (reader_word, writer_word)
        self.budget = Budget()
        self._results: dict[tuple[int, int], list[str] | None] = {}
        """The first difference of each pair of types, by identity: a type that is used often is reported once.

        None while the pair is being compared.
        """
        self._known: dict[tuple[int, int], list[str]] = {}
        """Differences of pairs that an earlier pass has found."""
        self._has_assumed = False

    def run(self, one: Any, other: Any, path: Path) -> list[str]:
        """Return the differences of two types; `SchemaTooLarge` if the budget is spent."""
        while True:
            found = run_walk(self.walk(one, other, path), self.budget)
            if found or not self._needs_another_pass():
                return found

    def _needs_another_pass(self) -> bool:
        """Return whether the last pass assumed something, and found differences that its beginning did not know."""
        found = {pair: result for pair, result in self._results.items() if result}
        is_new = found.keys() != self._known.keys()
        self._results, self._known = {}, found
        has_assumed, self._has_assumed = self._has_assumed, False
        return has_assumed and is_new

    def walk(self, one: Any, other: Any, path: Path) -> Walk[list[str]]:
        pair = (id(one), id(other))
        if pair in self._results:
            result = self._results[pair]
            if result is None:
                self._has_assumed = True
                return self._known.get(pair, [])
            return result
        self._results[pair] = None
        found: list[str] = yield self.compare(one, other, path)
        self._results[pair] = found[:1]
        return found

    def compare(self, one: Any, other: Any, path: Path) -> Walk[list[str]]:
        """Return the differences of two types, with those of the types inside from `walk`."""
        raise NotImplementedError


_SHOWN_CHARACTERS = 1_000


def path_text(path: Path) -> str:
    """Return the steps of a path, joined; of a long path only the end: a schema may have many differences so deep."""
    steps = []
    left = _SHOWN_CHARACTERS
    while path and left > 0:
        path, step = path
        step = cut(step)
        steps.append(step)
        left -= len(step)
    return ("…" if path else "") + "".join(reversed(steps))


def cut(text: str) -> str:
    """Return a text; of a long one the beginning and the end."""
    half = _SHOWN_CHARACTERS // 2
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:half]}…{text[-half:]}"


_TOO_DEEP = f"schema: nested too deeply (limit {MAX_DEPTH} levels)"


def _no_number(name: str) -> NoReturn:
    raise InvalidSchema(f"schema: invalid JSON ({name} is not a number of JSON)")


def _float(digits: str) -> float:
    found = float(digits)
    if found in (float("inf"), float("-inf")):
        raise InvalidSchema(f"schema: number out of range ({digits[:40]})")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_NAMES:
        raise InvalidSchema(f"schema: too many names in one object ({len(pairs)}, limit {MAX_NAMES})")
    return dict(pairs)


def read_json(text: str) -> Any:
    """Return the JSON value of a text; `InvalidSchema` if it is not one."""
    elements = text.count("{") + text.count("[") + text.count(",")
    if elements > MAX_ELEMENTS:
        raise InvalidSchema(f"schema: too many commas and brackets ({elements}, limit {MAX_ELEMENTS})")
    decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_float)
    if len(text) > _READ_AT_ONCE_BYTES:  # The decoder in C lets no other thread run before it ends.
        decoder.object_pairs_hook = _object
        decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]  # typeshed lacks it
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise InvalidSchema(_TOO_DEEP) from None
    except InvalidSchema:
        raise
    except ValueError as error:
        raise InvalidSchema(f"schema: invalid JSON ({error})") from None
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    """Raise `InvalidSchema` for too many levels of arrays and objects."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidSchema(_TOO_DEEP)
        inner = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
        level = [part for part in inner if isinstance(part, dict | list)]


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return a JSON value as a text without spaces.

    Unlike the encoder in C, this lets other threads run. The one in Python passes each number through all levels.
    """
    written: list[str] = []
    _write(value, sort_keys, written.append)
    return "".join(written)


_CONSTANTS = {None: "null", True: "true", False: "false"}


def _write(value: Any, sort_keys: bool, add: Callable[[str], None]) -> None:
    if isinstance(value, dict):
        mark = "{"
        for name in sorted(value) if sort_keys else value:
            add(f"{mark}{json.encoder.encode_basestring(name)}:")
            _write(value[name], sort_keys, add)
            mark = ","
        add("}" if value else "{}")
    elif isinstance(value, list):
        mark = "["
        for each in value:
            add(mark)
            _write(each, sort_keys, add)
            mark = ","
        add("]" if value else "[]")
    elif isinstance(value, str):
        add(json.encoder.encode_basestring(value))
    else:
        add(repr(value) if type(value) in (int, float) else _CONSTANTS[value])


_shortened = reprlib.Repr()
_shortened.maxlist = _shortened.maxdict = 10
_shortened.maxstring = _shortened.maxlong = 100


def shown(value: object) -> str:
    """Return a value of a schema for a message, in at most a hundred characters."""
    return repr(value[:100])[:100] if isinstance(value, str) else _shortened.repr(value)[:100]
