"""Large schemas: other clients do not wait while one is parsed or compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from threading import Event
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.schemas import InvalidSchema, Schema, parse_schema
from ottla.protocol.schemas.values import SHORT_CHARACTERS, NotShortError, short
from ottla.server.registry import endpoints as endpoints_module
from ottla.server.registry import parsing as parsing_module
from ottla.server.registry import registry as registry_module
from ottla.server.registry.options import property_of
from ottla.server.registry.parsing import AT_ONCE_CHARACTERS, KEPT_CHARACTERS_MAX, KEPT_MAX, Parse, Parser
from ottla.server.registry.records import Content, Reference, content_of
from ottla.server.registry.schemas import find_incompatibilities
from ottla.server.registry.state import ContextState, State
from ottla.server.runtime import time_slices
from support.broker.admin_calls import AdminCalls
from support.broker.registry_calls import RegistryCalls, record_schema
from support.noted import each_case
from support.registry.verdict import parsed
from support.registry.verdicts_avro import field, record

PATIENCE_S = 30
LARGE = json.dumps({"type": "record", "name": "R", "doc": "x" * SHORT_CHARACTERS, "fields": []})
SMALL = record_schema("x int")


class Parsing:
    """Parsing of large schemas, new ones or stored ones, which waits for `may_end`."""

    def __init__(self, is_new: bool) -> None:
        self.is_new = is_new
        self.begun, self.may_end = Event(), Event()

    def __call__(self, kind: str, text: str, references: Any, *, is_new: bool = True) -> Schema:
        if len(text) > SHORT_CHARACTERS and is_new is self.is_new:
            self.begun.set()
            assert self.may_end.wait(PATIENCE_S)
        return parse(kind, text, references, is_new=is_new)


parse = parse_schema


@pytest.fixture
def registry() -> Iterator[RegistryCalls]:
    with ottla.Broker(schema_registry=True) as broker:
        yield RegistryCalls.of(broker)


@contextmanager
def during(
    ask: Callable[[], tuple[int, Any]], monkeypatch: pytest.MonkeyPatch, *, is_new: bool = True
) -> Iterator[Future[tuple[int, Any]]]:
    """Run the block while `ask` waits for a large schema to be parsed; afterwards the future has its answer."""
    parsing = Parsing(is_new)
    monkeypatch.setattr(parsing_module, "parse_schema", parsing)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(ask)
        try:
            assert parsing.begun.wait(PATIENCE_S)
            yield answer
            assert not answer.done()
        finally:
            parsing.may_end.set()


@each_case("path", ["/subjects/large/versions", "/subjects/known", "/compatibility/subjects/known/versions"])
def test_other_clients_do_not_wait_for_a_large_schema(path: str) -> None:
    with ottla.Broker(schema_registry=True, admin="0") as broker, pytest.MonkeyPatch.context() as monkeypatch:
        registry = RegistryCalls.of(broker)
        registry.register("known", SMALL)
        broker.produce("t", b"\0\0\0\0\1\6")
        with during(
            lambda: registry.ask("POST", path, {"schema": LARGE}), monkeypatch, is_new=path.endswith("versions")
        ) as answer:
            for method, other, body in (
                ("GET", "/schemas/ids/1", None),
                ("GET", "/subjects/known/versions/latest", None),
                ("GET", "/schemas", None),
                ("POST", "/subjects/known", {"schema": SMALL}),
                ("POST", "/subjects/other/versions", {"schema": SMALL}),
                ("POST", "/subjects/other/versions", {"schema": record_schema("x int", "y int 0")}),
                ("POST", "/compatibility/subjects/other/versions/latest", {"schema": SMALL}),
                ("PUT", "/config/other", {"compatibility": "FULL"}),
                ("DELETE", "/subjects/other", None),
            ):
                assert registry.ask(method, other, body)[0] == 200, (method, other)
            admin = AdminCalls.of(broker)
            admin.post("/v1/topics/_schemas/compact", force=True)
            assert admin.get("/v1/topics/t/records")["records"][0]["value_decoded"]["text"] == '{"x":3}'
        assert answer.result()[0] in (200, 404)


@each_case(
    "change, status",
    [
        (("PUT", "/config/s", {"compatibility": "FULL"}), 409),
        (("PUT", "/config", {"compatibility": "FULL"}), 409),
        (("PUT", "/config/s", {"compatibility": "NONE"}), 200),
        (("PUT", "/mode/s", {"mode": "READONLY"}), 422),
        (("DELETE", "/subjects/a?permanent=true", None), 422),
        (("POST", "/subjects/other/versions", {"schema": SMALL}), 200),
    ],
)
def test_a_change_while_a_version_is_compared_counts(change: tuple[str, str, Any], status: int) -> None:
    with ottla.Broker(schema_registry=True) as broker, pytest.MonkeyPatch.context() as monkeypatch:
        registry = RegistryCalls.of(broker)
        registry.register("s", LARGE.replace("[]", '[{"name": "x", "type": "int"}]'))
        registry.register("a", record_schema(name="A"))
        assert registry.ask("DELETE", "/subjects/a")[0] == 200
        body = {"schema": record_schema(), "references": [{"name": "A", "subject": "a", "version": 1}]}
        with during(lambda: registry.ask("POST", "/subjects/s/versions", body), monkeypatch, is_new=False) as answer:
            assert registry.ask(*change)[0] == 200
        assert answer.result()[0] == status, answer.result()
        assert registry.get("/subjects/s/versions") == ([1, 2] if status == 200 else [1])


def test_one_subject_gets_its_versions_one_after_the_other(
    registry: RegistryCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.ask("PUT", "/config", {"compatibility": "NONE"})
    with (
        ThreadPoolExecutor(1) as thread,
        during(lambda: registry.ask("POST", "/subjects/s/versions", {"schema": LARGE}), monkeypatch) as answer,
    ):
        second = thread.submit(registry.register, "s", SMALL)
        registry.register("other", SMALL)
    assert answer.result()[0] == 200 and second.result() == 1
    assert registry.get("/subjects/s/versions") == [1, 2]


def test_older_versions_are_compared_in_groups(registry: RegistryCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.ask("PUT", "/config", {"compatibility": "FORWARD_TRANSITIVE"})
    for count in range(1, 5):
        registry.register("s", record_schema(*(f"f{number} int" for number in range(count))))
    new = {"schema": record_schema(*(f"f{number} int" for number in range(1, 5)))}
    path = "/compatibility/subjects/s/versions?verbose=true"
    whole = registry.ask("POST", path, new)
    assert "{oldSchemaVersion: 4}" in whole[1]["messages"]
    monkeypatch.setattr(registry_module, "COMPARED_CHARACTERS", 100)
    assert registry.ask("POST", path, new) == whole
    good = {"schema": record_schema(*(f"f{number} int" for number in range(5)))}
    assert registry.ask("POST", path, good) == (200, {"is_compatible": True, "messages": []})
    broken = {"schema": "{"}
    assert registry.ask("POST", "/compatibility/subjects/none/versions", broken)[1]["error_code"] == 42201


class WatchedContexts(dict[str, ContextState]):
    """Contexts that know whether all of them were read on Trio's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.are_read_on_trios_thread: list[bool] = []

    def items(self) -> Any:
        self.are_read_on_trios_thread.append(trio.lowlevel.in_trio_run())
        return super().items()


def test_contexts_are_searched_in_a_worker(registry: RegistryCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = WatchedContexts()

    def made(state: State) -> None:
        make(state)
        state.contexts = contexts

    make = State.__init__
    monkeypatch.setattr(State, "__init__", made)
    registry.register("s", SMALL)
    guid = registry.get("/schemas/ids/1")["guid"]
    assert registry.get(f"/schemas/guids/{guid}")["schema"] == SMALL
    assert registry.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]
    assert contexts.are_read_on_trios_thread == [False, False]


def test_the_metadata_of_versions_is_searched_in_a_worker(
    registry: RegistryCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("s", SMALL, metadata={"properties": {"owner": "shop"}})
    are_on_trios_thread = []

    def watched(metadata: Any, name: str) -> Any:
        are_on_trios_thread.append(trio.lowlevel.in_trio_run())
        return property_of(metadata, name)

    monkeypatch.setattr(endpoints_module, "property_of", watched)
    assert registry.get("/subjects/s/metadata?key=owner&value=shop")["version"] == 1
    assert registry.ask("GET", "/subjects/s/metadata?key=owner&value=other")[1]["error_code"] == 40403
    assert are_on_trios_thread == [False, False]


MANY_STEPS = tuple(
    json.dumps([json.loads(record_schema(name=f"{name}{number}")) for number in range(100)]) for name in "AB"
)


def test_small_schemas_that_take_many_steps_are_not_short() -> None:
    one, other = (parsed("AVRO", json.loads(each)) for each in MANY_STEPS)
    expected = find_incompatibilities("BACKWARD", one, [other])
    with pytest.raises(NotShortError), short():
        find_incompatibilities("BACKWARD", one, [other])
    assert find_incompatibilities("BACKWARD", one, [other]) == expected
    small = parsed("AVRO", record())
    with short():
        for _ in range(1_000):
            assert find_incompatibilities("BACKWARD", small, [parsed("AVRO", record())]) == []


async def test_work_that_is_not_short_is_done_again_in_the_thread_of_large_schemas() -> None:
    contents = [content_of("AVRO", each) for each in MANY_STEPS]
    assert sum(len(each.text) for each in contents) < SHORT_CHARACTERS
    calls = []

    def compare(parse: Parse) -> list[str]:
        calls.append(1)
        one, other = map(parse, contents)
        return find_incompatibilities("BACKWARD", one, [other])

    parser = Parser()
    assert await parser.run(State(), ".", contents, compare) != []
    assert len(calls) == 2
    assert parser.kept(".", contents[0], is_new=False) is not None


async def test_kept_schemas_make_room_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    parser, steps = Parser(), list[int]()
    contents = [content_of("AVRO", record_schema(f"x{number} int")) for number in range(KEPT_MAX)]
    large = [content_of("AVRO", LARGE.ljust(KEPT_CHARACTERS_MAX // 2 - number)) for number in range(2)]

    def kept() -> int:
        return sum(parser.kept(".", each, is_new=False) is not None for each in contents)

    async def watch() -> None:
        while True:
            steps.append(kept())
            await trio.lowlevel.checkpoint()

    await parser.run(State(), ".", contents, lambda parse: [*map(parse, contents)])
    assert kept() == KEPT_MAX
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await parser.run(State(), ".", large, lambda parse: [*map(parse, large)])
        nursery.cancel_scope.cancel()
    steps.append(kept())
    assert steps[-1] == 0
    assert max(before - after for before, after in pairwise(steps)) <= 2


async def test_only_small_schemas_of_a_loaded_kind_are_parsed_without_a_thread() -> None:
    parser = Parser()
    text = record_schema("x int")
    spaces = " " * (AT_ONCE_CHARACTERS - len(text))
    small, larger = content_of("AVRO", text + spaces), content_of("AVRO", text + spaces + " ")
    numbers = {"type": "array", "items": ["null", "double"]}
    slow = content_of("AVRO", json.dumps(record(field("x", numbers, default=[0.5] * 150))))
    assert len(slow.text) <= AT_ONCE_CHARACTERS
    referring = content_of("AVRO", '"int"', (Reference("a", "a", 1),))

    async def found(content: Content) -> str | None:
        schema = await parser.at_once(".", content, is_new=True)
        return None if schema is None else schema.canonical

    assert await found(small) is None
    await parser.run(State(), ".", [content_of("AVRO", '"int"')], lambda parse: parse(content_of("AVRO", '"int"')))
    assert await found(small) == text
    assert parser.kept(".", small, is_new=True) is not None
    assert [await found(each) for each in (larger, slow, referring, content_of("JSON", "{}"))] == [None] * 4
    with pytest.raises(InvalidSchema, match="invalid name"):
        await found(content_of("AVRO", record_schema("x-y int")))
    await parser.run(State(), ".", [slow], lambda parse: parse(slow))
