"""Methods of `ottla.Broker` that are operations of `..control`.

    roll = OperationMethod(lambda: operations.segments.roll)

The signature and the docstring are the operation's: its parameters after the broker are those of the method.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

from ..broker.broker import Broker as Inner
from .running import Running

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


class OperationMethod(Generic[Parameters, Result]):
    """See the module. `find` loads the operation, when the method is first looked at."""

    def __init__(self, find: Callable[[], Callable[Concatenate[Inner, Parameters], Awaitable[Result]]]) -> None:
        self._find = find

    @overload
    def __get__(self, broker: None, owner: type[Running]) -> Callable[Concatenate[Running, Parameters], Result]: ...
    @overload
    def __get__(self, broker: Running, owner: type[Running]) -> Callable[Parameters, Result]: ...
    def __get__(self, broker: Running | None, owner: type[Running]) -> Any:
        operation = self._find()
        described, types = inspect.signature(operation), get_type_hints(operation)
        _, *parameters = described.parameters.values()
        parameters = [each.replace(annotation=types[each.name]) for each in parameters]
        signature = described.replace(parameters=[_SELF, *parameters], return_annotation=types["return"])

        def method(broker: Running, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
            signature.bind(broker, *args, **options)  # a wrong call is the caller's, not one of the broker's thread
            return broker._ask(operation, *args, **options)

        method.__name__, method.__qualname__ = operation.__name__, f"{owner.__qualname__}.{operation.__name__}"
        method.__module__, method.__doc__ = owner.__module__, operation.__doc__
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method if broker is None else method.__get__(broker)
