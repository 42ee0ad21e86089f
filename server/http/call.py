"""A call of the admin listener: one row of the table.

The table routes and parses requests, writes responses, and makes the OpenAPI document.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from ..broker.supervisor import Supervisor
from ..control.operation import Method, Nothing, Operation

__all__ = ["JSON_TYPE", "Call", "Nothing", "Supervisor", "Text", "call_of"]

JSON_TYPE = "application/json"

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Text:
    """A response that is a text of the type `Call.content_type`."""

    text: str


@dataclass(frozen=True, slots=True)
class Call(Generic[Request, Answer]):
    method: Method
    path: str
    """A template: `{name}` is a segment, percent-decoded, that becomes the field of that name."""
    doc: str
    """Description in one line, for users."""
    request: type[Request]
    """A dataclass. Its fields come from the path, from the query of GET and DELETE, from the JSON object of POST and PUT."""
    answer: type[Answer]
    """A dataclass, which becomes a JSON object; or `Text`."""
    function: Callable[[Supervisor, Request], Awaitable[Answer]]
    """Runs the call, on Trio's thread, yielding at the end of each time slice. Raises `ControlError` if it refuses."""
    statuses: tuple[int, ...] = ()
    """HTTP statuses of its errors, in addition to those of every call."""
    only_waits: bool = False
    """Whether it changes nothing, so that it is cancelled when its client disconnects."""
    any_time: bool = False
    """Whether it is answered between two runs of the broker, and continues when a run ends; e.g. a call that ends one.
    All others wait for the next run, and end with theirs.
    """
    without_token: bool = False
    """Whether it needs no token."""
    content_type: str = JSON_TYPE
    """Content type of responses."""

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PUT")


def call_of(operation: Operation) -> Call[Any, Any]:
    """Return the call of an operation.

    Its parameters, except the broker, are the fields of the request; or its only parameter is the request.

    An operation on the runs of a broker, not on the present one, is answered at any time.
    """
    function, said = operation.function, operation.descriptions
    hints = get_type_hints(function, include_extras=True)
    subject, *parameters = inspect.signature(function).parameters.values()
    is_of_supervisor = hints[subject.name] is Supervisor
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

    async def perform(supervisor: Supervisor, fields: Any) -> Any:
        given = {each.name: fields if is_whole else getattr(fields, each.name) for each in parameters}
        done = function(supervisor if is_of_supervisor else supervisor.broker, **given)
        return await done if inspect.isawaitable(done) else done

    return Call(
        operation.method,
        operation.path,
        operation.summary,
        request,
        hints["return"],
        perform,
        operation.statuses,
        operation.only_waits,
        any_time=is_of_supervisor,
    )


def _field(parameter: inspect.Parameter, said: dict[str, str]) -> Any:
    doc = {"doc": said[parameter.name]} if parameter.name in said else {}
    if parameter.default is inspect.Parameter.empty:
        return field(metadata=doc)
    return field(default_factory=lambda: parameter.default, metadata=doc)
