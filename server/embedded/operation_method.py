"""Methods of `ottla.Broker` that are operations of `..control`.

    roll = OperationMethod(lambda: operations.segments.roll)

The signature and the docstring are the operation's: its parameters after the broker are those of the method.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

from ..broker.broker import Broker as Inner
from .running import Running

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


class OperationMethod(Generic[Parameters, Result]):
    """Method of `ottla.Broker`; see the module.

    `find` loads the operation at the first access; then a plain function replaces this.
    """

    def __init__(self, find: Callable[[], Callable[Concatenate[Inner, Parameters], Awaitable[Result]]]) -> None:
        self._find = find

    def __set_name__(self, owner: type[Running], name: str) -> None:
        self._owner, self._name = owner, name

    @overload
    def __get__(self, broker: None, owner: type[Running]) -> Callable[Concatenate[Running, Parameters], Result]: ...
    @overload
    def __get__(self, broker: Running, owner: type[Running]) -> Callable[Parameters, Result]: ...
    def __get__(self, broker: Running | None, owner: type[Running]) -> Any:
        method = self._make_method()
        setattr(self._owner, self._name, method)
        return method if broker is None else method.__get__(broker)

    def _make_method(self) -> FunctionType:
        operation, name = self._find(), self._name
        described, types = inspect.signature(operation), get_type_hints(operation)
        _, *parameters = described.parameters.values()
        parameters = [each.replace(annotation=types[each.name]) for each in parameters]
        signature = described.replace(parameters=[_SELF, *parameters], return_annotation=types["return"])

        def method(self: Running, /, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
            try:
                signature.bind(self, *args, **options)
            except TypeError as error:  # the caller's, not one in the broker's thread
                raise TypeError(f"{name}: {error}") from None
            return self._ask(operation, *args, **options)

        assert isinstance(method, FunctionType)
        method.__name__, method.__qualname__ = name, f"{self._owner.__qualname__}.{name}"
        method.__module__, method.__doc__ = self._owner.__module__, operation.__doc__
        method.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": types["return"]}
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method
