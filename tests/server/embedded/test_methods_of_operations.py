"""Methods of `ottla.Broker` that are operations of the control room: they have the operation's signature and docstring."""

from __future__ import annotations

import inspect

import pytest

import ottla
from ottla.server.control.compaction import compact
from ottla.server.embedded.operation_method import OperationMethod

METHODS = {
    name: found
    for cls in ottla.Broker.__mro__
    for name, found in vars(cls).items()
    if isinstance(found, OperationMethod)
}


def test_each_has_what_help_and_editors_show() -> None:
    assert {"compact", "roll", "explain", "why_allowed", "move_leader"} <= METHODS.keys()
    for name in METHODS:
        method = getattr(ottla.Broker, name)
        assert inspect.isfunction(method), name
        assert inspect.getdoc(method), name
        assert next(iter(inspect.signature(method).parameters)) == "self", name
    assert str(inspect.signature(ottla.Broker().compact)).startswith("(topic: str, partitions: ")
    assert inspect.getdoc(ottla.Broker.compact) == inspect.getdoc(compact)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda broker: broker.compact(), "'topic'"),
        (lambda broker: broker.roll("orders", partition=1), "'partition'"),
    ],
)
def test_a_wrong_call_is_refused_where_it_stands(call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(TypeError, match=said):
        call(ottla.Broker())
