"""A user of `ottla-spark apply`: topics with records, commands in an empty directory, the contents of tables, a registry."""

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..support.clients.steps import admin, create_topic, produce_all
from ..support.environments import ROOT
from ..support.suite import Suite
from .command import CONFS, catalog, table_name
from .environments import Environment, variables

Rows: TypeAlias = dict[str, dict[str, Any]]
"""Rows by the column `key`."""


class Ran(NamedTuple):
    code: int
    out: str
    said: str

    @property
    def refusal(self) -> str:
        return self.said.strip()


class Commands:
    """The commands of `commands.py`, in one process; tables and files are in its directory, which is empty at first."""

    def __init__(self, suite: Suite, of: Environment, bootstrap: str, work: Path, jars: Sequence[Path]) -> None:
        self.suite, self.of, self.bootstrap, self.work = suite, of, bootstrap, work
        work.mkdir()
        self._words = [str(of.python), "-m", "compat.spark_apply.commands", of.kind.name]
        self._words += [",".join(map(str, [*of.jars, *jars])), str(work)]
        with open(work.parent / "schemas.log", "ab") as log:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**variables(of), "PYTHONPATH": str(ROOT)},
                text=True,
                cwd=work,
            )

    def run(self, *words: str) -> Ran:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        print(json.dumps(words), file=stdin, flush=True)
        for line in stdout:
            if line.startswith("["):
                return Ran(*json.loads(line))
        raise RuntimeError("the commands' process has ended; see schemas.log")

    def topic(self, name: str) -> str:
        """Return the topic's name: each format has topics of its own on the one broker."""
        return f"{self.of.kind.name}-{name}"

    def table(self, name: str) -> str:
        """Return the table's name for a user: in the catalog, or in the command's working directory."""
        return table_name(self.of.kind.name, Path(), name) if self.of.kind.name == "iceberg" else f"./{name}"

    def words(self, topic: str, table: str | None = None, *more: str) -> list[str]:
        name = self.of.kind.name
        words = ["apply", "--bootstrap", self.bootstrap, "--topic", self.topic(topic), "--table-format", name]
        return [*words, "--table", self.table(table or topic), *more]

    def apply(self, topic: str, *more: str, table: str | None = None) -> Ran:
        return self.run(*self.words(topic, table, *more))

    def started(self, topic: str, *more: str) -> "subprocess.Popen[str]":
        """Return a command in a process of its own."""
        words = [
            str(self.of.python),
            "-m",
            "ottla.pipeline.cli",
            *self.words(topic, None, *more),
            "--master",
            "local[1]",
        ]
        for name, value in {
            **CONFS,
            **catalog(self.of.kind.name, str(self.work)),
            "spark.jars": self._words[-2],
        }.items():
            words += ["--conf", f"{name}={value}"]
        return subprocess.Popen(words, stderr=subprocess.PIPE, env=variables(self.of), text=True, cwd=self.work)

    def rows(self, table: str) -> Rows:
        """Return the table's rows by their column `key`, without the columns that say which record a row is from."""
        return {row.pop("key"): row for row in self.rows_of(table)}

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        ran = self.run("--rows", self.table(table))
        found: list[dict[str, Any]] = json.loads(ran.out)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def registry(schemas: dict[int, str], subject: str | None = None) -> Iterator[str]:
    """Serve a registry over HTTP; yield its address.

    Args:
        schemas: By id. What Apicurio's serializers register is added.
        subject: The newest of its schemas has the highest id.
    """
    registered: dict[str, int] = {}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known: dict[str, object] = {f"/schemas/ids/{each}": {"schema": text} for each, text in schemas.items()}
            newest = registered if subject is None else {subject: max(schemas)}
            for name, number in newest.items():
                known[f"/subjects/{name}/versions/latest"] = {"id": number, "schema": schemas[number]}
            self._answer(200 if self.path in known else 404, known.get(self.path, {}))

        def do_POST(self) -> None:
            """Register a schema as `POST /groups/default/artifacts` of Apicurio's API does."""
            name, number = self.headers["X-Registry-ArtifactId"], len(schemas) + 1
            schemas[number] = self.rfile.read(int(self.headers["Content-Length"])).decode()
            registered[name] = number
            ids = {"globalId": number, "contentId": number, "version": "1"}
            self._answer(200, {"id": name, "groupId": "default", "type": "AVRO", "state": "ENABLED", **ids})

        def _answer(self, status: int, found: object) -> None:
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def written(
    commands: Commands, name: str, *records: tuple[str | bytes | None, object], cleanup_policy: str = "compact"
) -> None:
    """Write records to a topic, and create it if necessary: values as they are, or as JSON."""
    topic, refused_records = commands.topic(name), list[object]()

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused_records.append(error)

    if topic not in admin(commands.bootstrap).list_topics(timeout=30).topics:
        create_topic(commands.bootstrap, topic, cleanup_policy=cleanup_policy)
    values = [
        (key, value if isinstance(value, bytes) or value is None else json.dumps(value)) for key, value in records
    ]
    produce_all(
        commands.bootstrap, topic, [{"key": key, "value": value, "on_delivery": delivered} for key, value in values]
    )
    if refused_records:
        raise RuntimeError(f"{topic} did not take all records: {refused_records[0]}")


def holds(suite: Suite, commands: Commands, what: str, ran: Ran, table: str, rows: Rows) -> None:
    name = f"{commands.of.kind.name}: {what}"
    if suite.check(name, ran.code == 0, ran.refusal if ran.code else ran.out.strip()):
        suite.equal(f"{name}: the rows", rows, commands.rows(table))


def refused(suite: Suite, commands: Commands, what: str, ran: Ran, code: int, words: str) -> None:
    """Check that a refusal is one line, with its exit code."""
    is_line = len(ran.refusal.splitlines()) == 1 and not ran.out
    right = ran.code == code and words in ran.refusal and is_line
    suite.check(f"{commands.of.kind.name}: {what} is one line", right, f"{ran.code} {ran.refusal[:400]}")
