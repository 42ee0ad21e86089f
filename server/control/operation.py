"""Operations: functions of this package that the admin listener offers, each declared once, where it is written.

    @operation("POST", "/v1/topics/{topic}/compact", statuses=(404, 409))
    async def compact(broker: Broker, topic: TopicName, *, force: bool = False) -> Compaction:
        \"\"\"Clean a compacted topic now.

        Args:
            force: Whether or not it is worth it.
        \"\"\"

All that HTTP needs follows from it: the parameters after the broker are the fields of the request, their annotations the bounds, `Args`
their descriptions, the first line of the docstring the summary, and what is returned, a dataclass, is the answer.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar

from ...storage.disk.paths import PARTITION_MAX
from ..runtime.errors import ControlError, Kind

Method = Literal["GET", "POST", "PUT", "DELETE"]
Function = TypeVar("Function", bound=Callable[..., Any])

INT64_MAX = 2**63 - 1
_INDENT = " " * 4


@dataclass(frozen=True, slots=True)
class Range:
    """Of a number; both ends included."""

    low: float
    high: float = INT64_MAX


@dataclass(frozen=True, slots=True)
class Length:
    """Of a text in characters, or of an array or object in members; both ends included."""

    low: int
    high: int = INT64_MAX


@dataclass(frozen=True, slots=True)
class Matches:
    """Of a text, wholly: a regular expression that Python and ECMA-262 read alike, and what it says in words."""

    pattern: str
    words: str


Name = Annotated[str, Length(1, 4096), Matches(r"[^\u0000]*", "no NUL")]
"""Of something that there is, by which it is looked up."""
TopicName = Annotated[str, Length(1, 249), Matches(r"[^\u0000]*", "no NUL")]
PartitionId = Annotated[int, Range(0, PARTITION_MAX)]
Partitions = Annotated[Iterable[PartitionId], Length(1)]
NodeId = Annotated[int, Range(0, 2**31 - 1)]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No fields."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A function that is called with the broker, or with its lives, and how HTTP has it."""

    function: Callable[..., Any]
    method: Method
    path: str
    """A template: `{name}` is the parameter of that name."""
    statuses: tuple[int, ...]
    """Of refusals, beside those that every call may get."""
    only_waits: bool
    """It changes nothing: it is given up when its client leaves."""

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def descriptions(self) -> dict[str, str]:
        """What the docstring says of each parameter."""
        _, _, below = (inspect.getdoc(self.function) or "").partition("\nArgs:\n")
        found: dict[str, str] = {}
        names: list[str] = []
        for line in below.partition("\n\n")[0].splitlines():
            text = line.removeprefix(_INDENT)
            if not text.startswith(" "):
                before, _, text = text.partition(": ")
                names = before.split(", ")
            found |= {name: f"{found.get(name, '')} {text.strip()}".strip() for name in names}
        return found


OPERATIONS: list[Operation] = []
"""Of the modules that have been loaded, in their order."""


def operation(
    method: Method, path: str, *, statuses: tuple[int, ...] = (), only_waits: bool = False
) -> Callable[[Function], Function]:
    """Have HTTP offer the function below; see the module and `Operation`."""

    def keep(function: Function) -> Function:
        OPERATIONS.append(Operation(function, method, path, statuses, only_waits))
        return function

    return keep


_SHOWN = 100


class Encoding(Enum):
    """How bytes of keys and values are written as a text, for whom JSON and forms have nothing better."""

    TEXT = "text"
    """UTF-8."""
    HEX = "hex"
    BASE64 = "base64"


def encoded(data: bytes) -> tuple[str, Encoding]:
    """`text` if the bytes are valid UTF-8, else `base64`."""
    try:
        return data.decode(), Encoding.TEXT
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), Encoding.BASE64


def decoded(what: str, text: str, encoding: Encoding) -> bytes:
    """The bytes that `text` stands for. ControlError INVALID, naming the field `what`: it is not written so."""
    try:
        if encoding is Encoding.HEX:
            return bytes.fromhex(text)
        if encoding is Encoding.BASE64:
            return base64.b64decode(text, validate=True)
        return text.encode()
    except ValueError:
        raise ControlError(Kind.INVALID, f"{what}: expected {_EXPECTED[encoding]}, found {text[:_SHOWN]!r}") from None


_EXPECTED = {Encoding.TEXT: "text", Encoding.HEX: "pairs of hexadecimal digits", Encoding.BASE64: "base64"}
