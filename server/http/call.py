"""A call of the admin listener: one row of the table, from which requests are routed and read, answers are written, and the
OpenAPI document is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from ..broker.lives import Lives
from ..control.operation import Method, Nothing, Operation

__all__ = ["JSON_TYPE", "Call", "Lives", "Nothing", "Text", "call_of"]

JSON_TYPE = "application/json"

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is written already: `Call.content_type` says as what."""

    text: str


@dataclass(frozen=True, slots=True)
class Call(Generic[Request, Answer]):
    method: Method
    path: str
    """A template: `{name}` is a segment, percent-decoded, that becomes the field of that name."""
    doc: str
    """One line, for those who ask."""
    request: type[Request]
    """A dataclass. Its fields come from the path, from the query of GET and DELETE, from the JSON object of POST and PUT."""
    answer: type[Answer]
    """A dataclass, which becomes a JSON object; or `Text`."""
    function: Callable[[Lives, Request], Awaitable[Answer]]
    """Does it, on Trio's thread, which it holds for no longer than its turns. Raises `ControlError` where it refuses."""
    statuses: tuple[int, ...] = ()
    """Those of refusals, beside the ones that every call may get."""
    only_waits: bool = False
    """It changes nothing: it is given up when its client leaves."""
    any_time: bool = False
    """It is answered between lives, too, and goes on when one ends: what ends one, for instance. All others wait for the next
    life, and end with theirs."""
    without_token: bool = False
    """Anybody may ask it."""
    content_type: str = JSON_TYPE
    """Of answers."""

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PUT")


def call_of(operation: Operation) -> Call[Any, Any]:
    """The row of an operation: its parameters, but the broker, are the fields of the request; or its one parameter is the request.

    An operation on the lives of a broker, not on the present one, is answered at any time.
    """
    function, said = operation.function, operation.descriptions
    hints = get_type_hints(function, include_extras=True)
    subject, *parameters = inspect.signature(function).parameters.values()
    is_of_lives = hints[subject.name] is Lives
    is_whole = len(parameters) == 1 and is_dataclass(hints[parameters[0].name])
    request = (
        hints[parameters[0].name]
        if is_whole
        else make_dataclass(
            "".join(word.capitalize() for word in [*function.__name__.split("_"), "request"]),
            [(each.name, hints[each.name], _field(each, said)) for each in parameters],
            frozen=True,
            slots=True,
        )
    )

    async def carry_out(lives: Lives, fields: Any) -> Any:
        given = {each.name: fields if is_whole else getattr(fields, each.name) for each in parameters}
        done = function(lives if is_of_lives else lives.broker, **given)
        return await done if inspect.isawaitable(done) else done

    return Call(
        operation.method,
        operation.path,
        operation.summary,
        request,
        hints["return"],
        carry_out,
        operation.statuses,
        operation.only_waits,
        any_time=is_of_lives,
    )


def _field(parameter: inspect.Parameter, said: dict[str, str]) -> Any:
    doc = {"doc": said[parameter.name]} if parameter.name in said else {}
    if parameter.default is inspect.Parameter.empty:
        return field(metadata=doc)
    return field(default_factory=lambda: parameter.default, metadata=doc)
