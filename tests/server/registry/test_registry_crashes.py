"""A registry whose broker is killed again and again, and compacted in between: nothing that was answered is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ottla
from support.broker.registry_calls import RegistryCalls
from support.noted import noted
from support.registry.registry_history import RegistryHistory
from support.sizes import size


@pytest.mark.parametrize("seed", range(size(1, 3)))
def test_everything_answered_is_there_after_a_kill(seed: int, tmp_path: Path) -> None:
    history = RegistryHistory(random.Random(seed))
    with ottla.Broker(tmp_path / "data", schema_registry=True) as broker:
        registry = RegistryCalls.of(broker)
        assert registry.ask("PUT", "/config", {"compatibility": "NONE"})[0] == 200
        for number, operation in enumerate(history.operations(size(120, 500))):
            with noted((seed, number, operation)):
                status, answer = registry.ask(*operation[1:])
                assert status == 200, answer
                history.answered(operation, answer)
                if number % size(20, 1) == 0:
                    broker.crash()
                    history.check(registry)
                if number % 30 == 29:
                    broker.roll("_schemas")
                    broker.compact("_schemas", force=True)
                    history.check(registry)
        broker.restart()
        history.check(registry)
