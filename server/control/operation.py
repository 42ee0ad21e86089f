"""Operations: functions of this package that the admin listener offers, each declared where it is written.

    @operation("POST", "/v1/topics/{topic}/compact", statuses=(404, 409))
    async def compact(broker: Broker, topic: TopicName, *, force: bool = False) -> Compaction:
        \"\"\"Clean a compacted topic now.

        Args:
            force: Ignore the dirty ratio and lags.
        \"\"\"

HTTP derives everything from it. The parameters after the broker are the fields of the request, their annotations the
bounds, `Args` their descriptions. The first line of the docstring is the summary, and the returned dataclass the
response.
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
    """Range of a number; both ends included."""

    low: float
    high: float = INT64_MAX


@dataclass(frozen=True, slots=True)
class Length:
    """Length of a text in characters, or of an array or object in members; both ends included."""

    low: int
    high: int = INT64_MAX


@dataclass(frozen=True, slots=True)
class Matches:
    """Pattern of a whole text: a regular expression that Python and ECMA-262 read alike, and its description."""

    pattern: str
    words: str


Name = Annotated[str, Length(1, 4096), Matches(r"[^\u0000]*", "no NUL")]
"""Name by which an existing thing is looked up."""
TopicName = Annotated[str, Length(1, 249), Matches(r"[^\u0000]*", "no NUL")]
PartitionId = Annotated[int, Range(0, PARTITION_MAX)]
Partitions = Annotated[Iterable[PartitionId], Length(1)]
NodeId = Annotated[int, Range(0, 2**31 - 1)]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No fields."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A function that is called with the broker, or with its runs, and its HTTP call."""

    function: Callable[..., Any]
    method: Method
    path: str
    """A template: `{name}` is the parameter of that name."""
    statuses: tuple[int, ...]
    """HTTP statuses of its errors, in addition to those of every call."""
    only_waits: bool
    """Whether it changes nothing, so that it is cancelled when its client disconnects."""

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def descriptions(self) -> dict[str, str]:
        """Descriptions of the parameters, from the docstring."""
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
"""Operations of the loaded modules, in their order."""


def operation(
    method: Method, path: str, *, statuses: tuple[int, ...] = (), only_waits: bool = False
) -> Callable[[Function], Function]:
    """Offer the decorated function over HTTP; see the module and `Operation`."""

    def keep(function: Function) -> Function:
        OPERATIONS.append(Operation(function, method, path, statuses, only_waits))
        return function

    return keep


_SHOWN = 100


class Encoding(Enum):
    """Encoding of the bytes of keys and values as text, for JSON and forms."""

    TEXT = "text"
    """UTF-8."""
    HEX = "hex"
    BASE64 = "base64"


def encoded(data: bytes) -> tuple[str, Encoding]:
    """Return the text and `text` if the bytes are valid UTF-8, else `base64`."""
    try:
        return data.decode(), Encoding.TEXT
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), Encoding.BASE64


def decoded(what: str, text: str, encoding: Encoding) -> bytes:
    """Return the bytes that `text` encodes. ControlError INVALID, naming the field `what`: the encoding is wrong."""
    try:
        if encoding is Encoding.HEX:
            return bytes.fromhex(text)
        if encoding is Encoding.BASE64:
            return base64.b64decode(text, validate=True)
        return text.encode()
    except ValueError:
        raise ControlError(Kind.INVALID, f"{what}: expected {_EXPECTED[encoding]}, found {text[:_SHOWN]!r}") from None


_EXPECTED = {Encoding.TEXT: "text", Encoding.HEX: "pairs of hexadecimal digits", Encoding.BASE64: "base64"}
