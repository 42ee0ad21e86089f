"""Methods of `ottla.Broker` that are operations of the control room: they have the operation's signature and docstring."""

from __future__ import annotations

import inspect
import pickle
from unittest.mock import create_autospec

import pytest

import ottla
from ottla.server.broker.supervisor import RunEndedError
from ottla.server.control.compaction import compact
from ottla.server.control.segments import roll
from ottla.server.embedded import operations
from ottla.server.embedded.operation_method import OperationMethod
from ottla.server.runtime.errors import ControlError, Kind

METHODS = {
    name: found
    for cls in ottla.Broker.__mro__
    for name, found in vars(cls).items()
    if isinstance(found, OperationMethod)
}


def test_each_method_has_a_signature_and_docstring() -> None:
    assert {"compact", "roll", "explain", "why_allowed", "move_leader"} <= METHODS.keys()
    for name in METHODS:
        method = getattr(ottla.Broker, name)
        assert inspect.isfunction(method), name
        assert inspect.getdoc(method), name
        assert next(iter(inspect.signature(method).parameters)) == "self", name
    assert str(inspect.signature(ottla.Broker().compact)).startswith("(topic: str, partitions: ")
    assert inspect.getdoc(ottla.Broker.compact) == inspect.getdoc(compact)


def test_an_accessed_method_is_a_function_of_its_class() -> None:
    for name, made in METHODS.items():
        method = getattr(ottla.Broker, name)
        assert getattr(ottla.Broker, name) is method
        assert method.__qualname__ == f"{made._owner.__qualname__}.{name}"
        assert pickle.loads(pickle.dumps(method)) is method
    spec = create_autospec(ottla.Broker, instance=True)
    spec.compact("orders", force=True)
    spec.apply_retention()


def test_inspecting_all_modules_finds_no_missing_module() -> None:
    assert not hasattr(operations, "__wrapped__")
    assert operations.segments.roll is roll


def test_each_method_takes_its_arguments_by_name() -> None:
    with ottla.Broker(acls=["User:* allow ALL topic:*"], nodes=2) as broker:
        broker.create_topic("t", configs={"cleanup.policy": "compact"})
        assert broker.why_allowed(principal="User:a", operation="READ", resource="topic:t").is_allowed
        assert broker.move_leader(topic="t", partition=0, node=1).leader == 1
        assert broker.roll(topic="t", partitions=[0]).topic == "t"
        assert broker.explain(topic="t", partition=0).topic == "t"
        for wrong in (0, -1, 2.5, "x"):
            with pytest.raises(ottla.ControlError, match="bars_max: expected a number from 1 to"):
                broker.picture("t", bars_max=wrong)  # type: ignore[arg-type]


def test_a_refusal_can_be_pickled() -> None:
    for error in (ControlError(Kind.CONFLICT, "it is taken"), RunEndedError("the broker is stopping")):
        found = pickle.loads(pickle.dumps(error))
        assert (type(found), found.kind, str(found)) == (type(error), error.kind, str(error))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda broker: broker.compact(), "'topic'"),
        (lambda broker: broker.roll("orders", partition=1), "'partition'"),
    ],
)
def test_a_wrong_call_is_refused_at_the_call(call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(TypeError, match=said):
        call(ottla.Broker())
