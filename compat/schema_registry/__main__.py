"""The schema registry with stock clients of other languages, through kill -9, and its speed and memory.

Python's confluent-kafka is in `tests/server/registry/test_registry_clients.py`, with all its serializers.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil

import ottla
from support.broker.admin_calls import AdminCalls
from support.broker.registry_calls import RegistryCalls, record_schema
from support.registry.registry_history import Operation, RegistryHistory

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import free_port
from ..support.suite import NotRunError, Options, Suite, run_suite
from ..support.suite_sources import suite_sources
from . import enemies, examples
from .enemies import Figure

EXAMPLE = "example.js"
"""The example of docs/schema-registry.md."""
CLIENTS = Path(__file__).parent / "clients"
BARE = Path(__file__).with_name("bare.py")
CLIENT_TIMEOUT_S = 300
OPERATIONS, QUICK_OPERATIONS = 500, 15
COMPACTED_EACH = 10
KILL_AFTER_S_MAX = 0.1
"""A process is killed up to this long after a write was sent."""
SCHEMAS = 1_000
SAMPLES, QUICK_SAMPLES = 4_000, 500
FIRST_RECORD_S_MAX, MEMORY_BYTES_MAX = 0.3, 20 << 20
LOOKUP_RATIOS_MAX = {
    "by id": 3.0,
    "by text": 4.0,
    "by text, each time of another schema": 4.0,
    "by text in another layout, each time of another schema": 4.0,
}
"""CPU time of a look-up, by that of any answer of Trio and h11 in the same run. A usual core gives 6 000 of these a second."""
SLICES = 5
"""The measured look-ups take turns; of each the fastest counts."""
RUNS = 5


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("Ottla, whose registry this is")
    for name, command in PROGRAMS.items():
        judge(suite, name, command)
    show(suite)
    examples.judge(suite)

    def figure(what: str, holds: bool, detail: str) -> None:
        """Judge a figure in a full run only, on a machine that does nothing else."""
        if options.quick:
            suite.note(f"{what}: {detail}")
        else:
            suite.check(what, holds, detail)

    enemies.judge(suite, figure, quick=options.quick)
    kill(suite, QUICK_OPERATIONS if options.quick else OPERATIONS)
    measure(suite, figure, QUICK_SAMPLES if options.quick else SAMPLES)


# Clients


@cache
@fetches("schema-registry-node")
def _node() -> list[str]:
    if not (shutil.which("node") and shutil.which("npm")):
        raise NotRunError("Node and npm")
    folder = cache_dir() / "schema-registry-node"
    folder.mkdir(exist_ok=True)
    for name in ("package.json", "client.js", EXAMPLE):
        shutil.copy(CLIENTS / "node" / name, folder / name)
    if not (folder / "node_modules" / "@confluentinc").exists():
        _build("npm", "install", "--no-audit", "--no-fund", cwd=folder)
    return ["node", str(folder / "client.js")]


@cache
@fetches("schema-registry-go")
def _go() -> list[str]:
    if not shutil.which("go"):
        raise NotRunError("Go")
    program = str(cache_dir() / "schema-registry-go")
    _build("go", "build", "-buildvcs=false", "-mod=readonly", "-o", program, ".", cwd=CLIENTS / "go")
    return [program]


@cache
@fetches("schema-registry-srclient")
def _srclient() -> list[str]:
    """Build the program inside a copy of the client's sources, whose module then has the client's dependencies."""
    if not shutil.which("go"):
        raise NotRunError("Go")
    sources = suite_sources("srclient", "riferrei/srclient", "schemaRegistryClient.go")
    folder, program = cache_dir() / "schema-registry-srclient", cache_dir() / "schema-registry-srclient.bin"
    shutil.copytree(sources, folder, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)
    shutil.copytree(CLIENTS / "srclient", folder / "calls", dirs_exist_ok=True)
    _build("go", "build", "-buildvcs=false", "-o", str(program), "./calls", cwd=folder)
    return [str(program)]


@cache
@fetches("maven")
def _java() -> list[str]:
    """Confluent's client is not in Maven Central; a jar of Flink that is there contains it, with a serializer."""
    if not (shutil.which("javac") and shutil.which("mvn")):
        raise NotRunError("Java and Maven")
    folder = cache_dir() / "schema-registry-flink"
    if not (folder / "complete").exists():
        folder.mkdir(exist_ok=True)
        pom = str(CLIENTS / "java" / "pom.xml")
        _build("mvn", "-B", "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}", cwd=folder)
        (folder / "complete").touch()
    return ["java", "-cp", f"{folder}/*", str(CLIENTS / "java" / "Client.java")]


def _build(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise NotRunError(f"{command[0]} with its package index ({lines[-1]:.200})")


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "@kafkajs/confluent-schema-registry": lambda: [*_node(), "kafkajs"],
    "@confluentinc/schemaregistry": lambda: [*_node(), "confluent"],
    "franz-go pkg/sr": _go,
    "riferrei/srclient": _srclient,
    "Confluent's client for Java": _java,
}


def judge(suite: Suite, name: str, command: Callable[[], list[str]]) -> None:
    """Run a client's calls; each is a check."""
    try:
        words = command()
    except NotRunError as missing:
        suite.skip(name, f"needs {missing}")
        return
    with ottla.Broker(schema_registry=True) as broker:
        done = subprocess.run(
            [*words, str(broker.schema_registry)], capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False
        )
    calls = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line]
    for call, outcome in calls:
        suite.check(f"{name}: {call}", outcome == "ok", "" if outcome == "ok" else outcome)
    suite.check(f"{name}: all calls were made", done.returncode == 0 and len(calls) > 5, done.stderr[-300:])


def show(suite: Suite) -> None:
    """Run the example of the documentation."""
    try:
        (node, program, *_) = _node()
    except NotRunError as missing:
        suite.skip("the example of the documentation", f"needs {missing}")
        return
    with ottla.Broker(schema_registry=True) as broker:
        words = [node, str(Path(program).with_name(EXAMPLE)), str(broker.schema_registry)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    suite.check("the example of the documentation", done.stdout == "3\n", done.stderr[-300:])


# Kills


def kill(suite: Suite, count: int) -> None:
    """Kill the broker while each write of a history is under way; what was answered must be there afterwards."""
    history, rng = RegistryHistory(random.Random(1)), random.Random(2)
    port, admin_port, unanswered = free_port(), free_port(), 0
    arguments = ("--schema-registry", str(port), "--admin", str(admin_port))
    with OttlaProcess(profile="dev", arguments=arguments) as process:
        registry, admin = RegistryCalls(f"http://localhost:{port}"), AdminCalls(f"localhost:{admin_port}")
        assert registry.ask("PUT", "/config", {"compatibility": "NONE"})[0] == 200
        for number, operation in enumerate(history.operations(count)):
            answer = _killed_while(process, registry, operation, rng.uniform(0, KILL_AFTER_S_MAX))
            process.start()
            if answer is None:
                unanswered += 1
                history.adopt(operation, registry)
            else:
                history.answered(operation, answer)
            history.check(registry)
            if number % COMPACTED_EACH == COMPACTED_EACH - 1:
                admin.post("/v1/topics/_schemas/roll")
                admin.post("/v1/topics/_schemas/compact", force=True)
                history.check(registry)
    suite.check("kill -9 in each write: what was answered is there", True, f"{count} kills, {unanswered} unanswered")


def _killed_while(process: OttlaProcess, registry: RegistryCalls, operation: Operation, after_s: float) -> Any:
    """Return the answer to an operation; None if the process was killed before."""
    answers: list[Any] = []

    def ask() -> None:
        with suppress(OSError, http.client.HTTPException):
            status, answer = registry.ask(*operation[1:])
            assert status == 200, answer
            answers.append(answer)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(after_s)
    process.kill()
    asking.join()
    return answers[0] if answers else None


# Figures


FIRST_RECORD = """
import sys, time, ottla
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
begun_s = time.perf_counter()
if sys.argv[1] == "alone":
    with ottla.Broker():
        print(time.perf_counter() - begun_s)
else:
    with ottla.Broker(schema_registry=True) as broker:
        write = AvroSerializer(SchemaRegistryClient({"url": broker.schema_registry}), '"int"')
        write(7, SerializationContext("t", MessageField.VALUE))
        print(time.perf_counter() - begun_s)
"""


def measure(suite: Suite, figure: Figure, samples: int) -> None:
    """Measure times, memory and speed."""
    first_s = {
        which: min(
            float(subprocess.run([sys.executable, "-c", FIRST_RECORD, which], capture_output=True, check=True).stdout)
            for _ in range(RUNS)
        )
        for which in ("alone", "with a registry")
    }
    more_s = first_s["with a registry"] - first_s["alone"]
    figure("time to the first serialized record, over a broker alone", more_s <= FIRST_RECORD_S_MAX, f"{more_s:.3f} s")
    port = free_port()
    with OttlaProcess(profile="dev", arguments=("--schema-registry", str(port))) as process:
        assert process.process is not None
        of_it = psutil.Process(process.process.pid)
        client = _Client(port)
        ask = client.ask
        ask("POST", "/subjects/first/versions", {"schema": '"int"'})
        before_bytes = of_it.memory_info().rss
        schemas: list[tuple[str, dict[str, str]]] = []
        for number in range(SCHEMAS):
            fields = [f"f{at} int 0" for at in range(number // 100 + 1)]
            made = f"/subjects/s{number % 100}", {"schema": record_schema(f"g{number % 100} int", *fields)}
            ask("POST", f"{made[0]}/versions", made[1])
            schemas.append(made)
        more_bytes = of_it.memory_info().rss - before_bytes
        figure(f"memory of {SCHEMAS} schemas", more_bytes <= MEMORY_BYTES_MAX, f"{more_bytes / 1e6:.1f} MB")
        body = {"schema": '"int"'}
        with subprocess.Popen([sys.executable, str(BARE)], stdout=subprocess.PIPE) as bare:
            try:
                assert bare.stdout is not None
                plain, of_bare = _Client(int(bare.stdout.readline())), psutil.Process(bare.pid)
                others, in_lines = cycle(schemas), cycle((path, _in_lines(sent)) for path, sent in schemas)
                asks: list[Callable[[], None]] = [
                    lambda: plain.ask("GET", "/schemas/ids/7"),
                    lambda: ask("GET", "/schemas/ids/7"),
                    lambda: ask("POST", "/subjects/first", body),
                    lambda: ask("POST", *next(others)),
                    lambda: ask("POST", *next(in_lines)),
                ]
                least_of_each_s = [math.inf] * len(asks)
                for _ in range(SLICES):
                    for at, each in enumerate(asks):
                        process_asked = of_it if at else of_bare
                        took_s = _cpu_s(process_asked, each, samples // SLICES)
                        least_of_each_s[at] = min(least_of_each_s[at], took_s)
            finally:
                bare.kill()
        bare_s, *least_of_it_s = least_of_each_s
        for (name, ratio_max), least_s in zip(LOOKUP_RATIOS_MAX.items(), least_of_it_s, strict=True):
            ratio = least_s / bare_s
            detail = f"{ratio:.2f} times, {1 / least_s:.0f} a second of a core beside {1 / bare_s:.0f}"
            figure(f"a look-up {name}, by any answer of Trio and h11", ratio <= ratio_max, detail)


def _in_lines(sent: dict[str, str]) -> dict[str, str]:
    """Return a request with its schema in the layout of a file."""
    return {"schema": json.dumps(json.loads(sent["schema"]), indent=2)}


class _Client:
    """A client with one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("localhost", port)

    def ask(self, method: str, path: str, body: object = None) -> None:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        found = response.read()
        assert response.status == 200, found


def _cpu_s(process: psutil.Process, ask: Callable[[], None], count: int) -> float:
    """Return the CPU time that a process takes for one of `count` requests."""
    before = process.cpu_times()
    for _ in range(count):
        ask()
    after = process.cpu_times()
    return float(after.user + after.system - before.user - before.system) / count


if __name__ == "__main__":
    sys.exit(run_suite("schema_registry", body, doc=__doc__))
