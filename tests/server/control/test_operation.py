"""HTTP calls: each follows from the function of an operation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from typing import Annotated, Any

from ottla.server import control
from ottla.server.control.operation import OPERATIONS, Operation, Range, TopicName
from ottla.server.http.call import call_of
from ottla.server.http.fields import docs_of, fields_of
from ottla.server.http.table import CALLS


@dataclass(frozen=True, slots=True)
class Told:
    broker: str
    topic: str
    numbers: tuple[int, ...]


async def tell(
    broker: Any, topic: TopicName, *, numbers: tuple[int, ...] = (), count: Annotated[int, Range(1, 9)] = 3
) -> Told:
    """Tell what was asked.

    More of it.

    Args:
        topic: Its name, which may be long:
            as long as this.
        numbers, count: Any.

    Raises:
        ControlError: never
    """
    return Told(broker, topic, (*numbers, count))


def told_at_once(broker: Any) -> Told:
    """Tell."""
    return Told(broker, "", ())


class Supervisor:
    broker = "the broker"


async def test_an_operations_row_follows_from_its_function() -> None:
    call = call_of(Operation(tell, "POST", "/v1/{topic}", (404,), only_waits=True))

    assert (call.method, call.path, call.doc, call.answer) == ("POST", "/v1/{topic}", "Tell what was asked.", Told)
    assert (call.statuses, call.only_waits) == ((404,), True)
    fields = fields_of(call.request)
    assert {name: field.is_required for name, field in fields.items()} == {
        "topic": True,
        "numbers": False,
        "count": False,
    }
    assert fields["count"].marks == (Range(1, 9),)
    assert fields["count"].default == 3
    about = "Its name, which may be long: as long as this."
    assert docs_of(call.request) == {"topic": about, "numbers": "Any.", "count": "Any."}
    request = call.request(topic="t", numbers=(1, 2), count=5)
    assert await call.function(Supervisor(), request) == Told("the broker", "t", (1, 2, 5))  # type: ignore[arg-type]


async def test_a_synchronous_function_can_be_an_operation() -> None:
    call = call_of(Operation(told_at_once, "GET", "/v1/told", (), only_waits=False))

    assert fields_of(call.request) == {}
    assert await call.function(Supervisor(), call.request()) == Told("the broker", "", ())  # type: ignore[arg-type]


def test_every_operation_is_offered_with_descriptions_of_its_parameters() -> None:
    for module in pkgutil.walk_packages(control.__path__, f"{control.__name__}."):
        importlib.import_module(module.name)

    offered = {(call.method, call.path) for call in CALLS}
    for each in OPERATIONS:
        where = f"{each.function.__module__}.{each.function.__name__}"
        assert (each.method, each.path) in offered, where
        parameters = [*inspect.signature(each.function).parameters][1:]
        assert {*each.descriptions} <= {*parameters}, where
        assert {*re.findall(r"\{(\w+)\}", each.path)} <= {*parameters}, where
        assert re.fullmatch(r"[A-Z].*\.", each.summary), where
