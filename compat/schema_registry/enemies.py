"""Bad input: each kind gets Confluent's error, holds nothing, and changes nothing; other clients do not wait for large schemas."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from support.broker.registry_calls import RegistryCalls, record_schema
from support.registry.hostile_schemas import HOSTILE

from ..support.brokers.clocked_ottla import ClockedOttla
from ..support.brokers.process import free_port
from ..support.suite import Suite

STEP_MS_MAX = 20.0
WAIT_MS_MAX = 100.0
QUICK_HOSTILE = 12
Figure = Callable[[str, bool, str], None]

KNOWN = record_schema("x int")
OTHER = record_schema("x int", "y int")
PATH = "/subjects/known/versions"


def _sent(schema: str, kind: str = "AVRO", **fields: Any) -> dict[str, Any]:
    return {"schema": schema, "schemaType": kind, **fields}


def _cycle(kind: str) -> dict[str, Any]:
    itself = [{"name": "r", "subject": "r", "version": 1}]
    return _sent({"PROTOBUF": 'import "r"; message M {}'}.get(kind, '"int"'), kind, references=itself)


BAD: tuple[tuple[str, str, str, Any, int, int], ...] = (
    ("a body that is not JSON", "POST", PATH, "{", 400, 400),
    ("a body that is not an object", "POST", PATH, "[1]", 400, 400),
    ("a body that is not UTF-8", "POST", PATH, b"\xff\xfe\xff", 400, 400),
    ("JSON of 100 000 levels", "POST", PATH, "[" * 100_000, 400, 400),
    ("a number that JSON does not have", "POST", PATH, '{"schema": NaN}', 400, 400),
    ("a body of 5 MB", "POST", PATH, "x" * (5 << 20), 413, 413),
    ("a subject of 20 000 characters", "GET", f"/subjects/{'s' * 20_000}/versions", None, 422, 42208),
    ("a path that does not exist", "GET", "/nowhere", None, 404, 404),
    ("a method that does not exist", "PATCH", PATH, None, 405, 405),
    ("an empty schema", "POST", PATH.replace("known", "new"), {}, 422, 42201),
    ("a schema that is a number", "POST", PATH, {"schema": 7}, 422, 42201),
    ("Avro that is not JSON", "POST", PATH, _sent("{"), 422, 42201),
    ("Avro that names no type", "POST", PATH, _sent('"nothing"'), 422, 42201),
    ("Avro of 1 000 levels", "POST", PATH, _sent('{"type":"array","items":' * 1_000 + '"int"' + "}" * 1_000), 422, 42201),
    ("Avro that repeats a name", "POST", PATH, _sent(json.dumps([json.loads(KNOWN)] * 2)), 422, 42201),
    ("JSON Schema with a wrong keyword", "POST", PATH, _sent('{"properties": 3}', "JSON"), 422, 42201),
    ("Protobuf with an open brace", "POST", PATH, _sent("message M {", "PROTOBUF"), 422, 42201),
    ("Protobuf of 1 000 levels", "POST", PATH, _sent("message M {" * 1_000 + "}" * 1_000, "PROTOBUF"), 422, 42201),
    ("a type of schema that does not exist", "POST", PATH, _sent("x", "THRIFT"), 422, 42201),
    ("an incompatible schema", "POST", PATH, _sent(OTHER), 409, 409),
    ("a reference to itself, Avro", "POST", "/subjects/r/versions", _cycle("AVRO"), 422, 42201),
    ("a reference to itself, Protobuf", "POST", "/subjects/r/versions", _cycle("PROTOBUF"), 422, 42201),
    ("2 000 references", "POST", PATH, _sent(KNOWN, references=[{"name": "a", "subject": "a", "version": 1}] * 2_000), 422, 422),
    ("a subject of control characters", "GET", "/subjects/%00%1b/versions", None, 422, 42208),
    ("a subject that is not UTF-8", "GET", "/subjects/%ff/versions", None, 400, 400),
    ("a version that is not a number", "GET", f"{PATH}/one", None, 422, 42202),
    ("a version of 40 digits", "GET", f"{PATH}/{'9' * 40}", None, 422, 42202),
    ("an id that is not a number", "GET", "/schemas/ids/one", None, 404, 40403),
    ("a level that does not exist", "PUT", "/config", {"compatibility": "SOME"}, 422, 42203),
    ("a mode that does not exist", "PUT", "/mode", {"mode": "SOME"}, 422, 42204),
    ("a rule without a type", "POST", PATH, _sent(KNOWN, ruleSet={"domainRules": [{"name": "a"}]}), 422, 42210),
    ("metadata of 100 levels", "POST", PATH, _sent(KNOWN, metadata=json.loads('{"a":' * 100 + "1" + "}" * 100)), 422, 422),
    ("a limit that is not a number", "GET", "/subjects?limit=x", None, 422, 422),
    ("200 fields in a query", "GET", "/subjects?" + "&".join(["a=1"] * 200), None, 400, 400),
)  # fmt: skip


def judge(suite: Suite, figure: Figure, *, quick: bool) -> None:
    """Send all of it to one registry, and compare what is in it before and after."""
    port = free_port()
    with ClockedOttla(profile="dev", arguments=("--schema-registry", str(port))) as process:
        registry = RegistryCalls(f"http://localhost:{port}")
        registry.register("known", KNOWN)
        before = registry.get("/schemas?deleted=true"), registry.get("/config"), registry.get("/mode")
        for name, method, path, body, status, code in BAD:
            found, answer = registry.ask(method, path, body)
            found_code = answer.get("error_code") if isinstance(answer, dict) else answer
            suite.check(f"bad input: {name}", (found, found_code) == (status, code), f"{found} {found_code}")
        process.take_steps()
        longest = (0.0, ""), (0.0, "")
        for kind, name, text in _hostile(quick):
            for path in ("/subjects/enemy/versions", "/compatibility/subjects/known/versions"):
                registry.ask("POST", path, _sent(text, kind))
            steps = process.take_steps()
            longest = max(longest[0], (steps.cpu_ms, name)), max(longest[1], (steps.workers_ms, name))
        for what, (most_ms, name) in zip(
            ("Trio's thread", "a worker with the interpreter's lock"), longest, strict=True
        ):
            figure(f"longest step of hostile schemas, {what}", most_ms <= STEP_MS_MAX, f"{most_ms:.1f} ms ({name})")
        if registry.ask("DELETE", "/subjects/enemy")[0] == 200:
            registry.ask("DELETE", "/subjects/enemy?permanent=true")
        after = registry.get("/schemas?deleted=true"), registry.get("/config"), registry.get("/mode")
        suite.equal("bad input: nothing is lost or changed", before, after)
        waits_ms = sorted(_waits_ms(port, registry))
        suite.check("look-ups are answered while large schemas are parsed", len(waits_ms) > 10, f"{len(waits_ms)}")
        figure("longest wait of a look-up for them", waits_ms[-1] <= WAIT_MS_MAX, f"{waits_ms[-1]:.0f} ms")


def _hostile(quick: bool) -> Iterator[tuple[str, str, str]]:
    step = max(1, len(HOSTILE) // QUICK_HOSTILE) if quick else 1
    yield from HOSTILE[::step]


def _waits_ms(port: int, registry: RegistryCalls) -> Iterator[float]:
    """Yield the times of look-ups by one client while another one registers large schemas."""
    is_over = threading.Event()

    def register() -> None:
        for kind, _, text in HOSTILE[1:4]:
            registry.ask("POST", "/compatibility/subjects/known/versions", _sent(text, kind))
        is_over.set()

    thread = threading.Thread(target=register)
    thread.start()
    connection = http.client.HTTPConnection("localhost", port)
    while not is_over.is_set():
        for method, path, body in (
            ("GET", "/schemas/ids/1", None),
            ("POST", "/subjects/known", json.dumps(_sent(KNOWN))),
        ):
            begun_s = time.perf_counter()
            connection.request(method, path, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            yield (time.perf_counter() - begun_s) * 1000
    connection.close()
    thread.join()
