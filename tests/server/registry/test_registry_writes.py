"""Writes to `_schemas` that are refused or cancelled after their append."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import pytest

from ottla.server.registry import registry as registry_module
from ottla.server.registry.errors import RegistryError
from ottla.server.registry.records import Pair, Version, content_of
from ottla.server.registry.registry import NewSchema, registry_of
from support.broker.in_process_broker import run_in_order, running
from support.disk.few_descriptors import FewDescriptors
from support.lives.server_crashes import FLUSHED


def test_the_id_of_a_refused_write_that_is_in_the_log_is_not_given_again() -> None:
    files = FewDescriptors()

    async def work() -> None:
        async with running(files, **FLUSHED) as (broker, _):
            registry = registry_of(broker)
            await registry.register("a", NewSchema(content_of("AVRO", '"int"')))
            log = broker.services.topics.partition("_schemas", 0).log
            log.leader_epochs.assign(1, 1)  # so that the flush is refused
            files.is_short = True
            with pytest.raises(RegistryError, match="_schemas"):
                await registry.register("b", NewSchema(content_of("AVRO", '"long"')))
            assert (log.log_end_offset, log.high_watermark, log.failure) == (2, 1, None)
            files.is_short = False
            made = await registry.register("c", NewSchema(content_of("AVRO", '"string"')))
            state = await registry.state()
            assert {each.subject: each.id for each in state.versions(None)} == {"a": 1, "b": 2, "c": 3}
            assert made.id == 3

    run_in_order(work)


def test_versions_that_are_deleted_are_freed_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "TOMBSTONES_MAX", 1)
    left: list[int] = []

    async def work() -> None:
        async with running(FewDescriptors()) as (broker, _):
            registry = registry_of(broker)
            await registry.set_config(None, {"compatibilityLevel": "NONE"})
            for kind in ("int", "long", "float", "double"):
                await registry.register("freed", NewSchema(content_of("AVRO", f'"{kind}"')))
            await registry.delete_subject("freed", permanent=False)
            append = registry.topic.append

            async def counted(make: Callable[[], Sequence[Pair]]) -> None:
                left.append(sum(isinstance(each, Version) and each.subject == "freed" for each in gc.get_objects()))
                await append(make)

            monkeypatch.setattr(registry.topic, "append", counted)
            assert await registry.delete_subject("freed", permanent=True) == [1, 2, 3, 4]

    run_in_order(work)
    assert left == [4, 3, 2, 1]
