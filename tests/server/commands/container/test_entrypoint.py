"""The program that `docker run IMAGE …` runs, and its output once it serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.server.commands.container.entrypoint import LISTENER_FILE, ottla_words
from ottla.server.commands.frame.options import ADMIN_TOKEN
from support.broker.serve_process import PATIENCE_S
from support.commands.command_runs import run_command
from support.noted import each_case
from support.sizes import FULL

DEV = ("--profile", "dev", "--hello")


@each_case(
    "words, becomes",
    [
        ([], ["serve"]),
        (["--nodes", "3"], ["serve", "--nodes", "3"]),
        (["--help"], ["serve", "--help"]),
        (["--version"], ["--version"]),
        (["help"], ["help"]),
        (["serve", "--tls"], ["serve", "--tls"]),
        (["topics", "list"], ["topics", "list"]),
        (["reset"], ["reset"]),  # most images have a program of that name as well
        (["ottla", "dev"], ["dev"]),
        (
            ["dev"],
            ["serve", *DEV, "--admin", "localhost:9099", "--schema-registry", "localhost:8081"],
        ),
        (["dev", "--admin=7", "--schema-registry", "8"], ["serve", *DEV, "--admin=7", "--schema-registry", "8"]),
        (["sh", "-c", "exit 3"], None),
        (["/bin/sh"], None),
        (["topcs", "list"], ["topcs", "list"]),
    ],
)
def test_arguments_are_options_of_serve_or_a_command_or_another_program(
    words: list[str], becomes: list[str] | None
) -> None:
    assert ottla_words(words, {}) == becomes


def test_the_http_listeners_of_dev_are_published_only_with_a_token() -> None:
    assert ottla_words(["dev"], {ADMIN_TOKEN: "secret"}) == [
        *("serve", *DEV),
        *("--admin", "0.0.0.0:9099"),
        *("--schema-registry", "0.0.0.0:8081"),
    ]
    given = {"OTTLA_ADMIN": "127.0.0.1:7", "OTTLA_SCHEMA_REGISTRY": "127.0.0.1:8"}
    assert ottla_words(["dev"], given) == ["serve", *DEV]


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "ottla.server.commands.container", *words]


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment with `variables`, and without the tests' own one, of which the image would warn."""
    return {name: value for name, value in os.environ.items() if name != "OTTLA_TESTS"} | variables


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@contextmanager
def serving(words: Sequence[str] = (), **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run an image; yield the process and its second line of output. The first has the address."""
    process = subprocess.Popen(
        command(*words), env=environment(variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        try:
            yield process, "".join(lines)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def test_foreign_programs_and_commands_keep_their_exit_code_and_output() -> None:
    assert run("sh", "-c", "exit 3").returncode == 3
    # The signal ends a writer whose reader has gone, as in any shell.
    assert run("sh", "-c", "(yes; echo $? >&2) | head -n 1").stderr == f"{128 + signal.SIGPIPE}\n"
    assert run("--version").stdout == run_command("--version").out
    if FULL:
        assert run("help").stdout == run_command("help").out
    wrong = run("topcs")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1) and "did you mean topics" in wrong.stderr
    wrong = run(KAFKA_PROCESS_ROLES="controller")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1) and "KAFKA_PROCESS_ROLES" in wrong.stderr
    if FULL:
        wrong = run("--node", "3")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1) and "did you mean --nodes" in wrong.stderr


def test_a_program_that_cannot_run_is_reported_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 3")
    script.chmod(0o755)
    done = run(str(script))
    assert (done.returncode, done.stderr) == (1, f"ottla: cannot run {script}: Exec format error\n")


def test_a_start_prints_the_line_that_testcontainers_waits_for(tmp_path: Path) -> None:
    variables = {
        "KAFKA_NODE_ID": "7",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,BROKER://127.0.0.1:0",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768,BROKER://172.17.0.2:9093,",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT",
        "OTTLA_DATA": str(tmp_path / "data"),
        "TMPDIR": str(tmp_path),
    }
    with serving(**variables) as (process, said):
        ready, started = said.splitlines()
        address = re.fullmatch(r"ready (127\.0\.0\.1:\d+)", ready)
        assert address is not None
        for waits_for in (
            r".*\[KafkaServer id=\d+\] started.*",
            r".*Kafka Server started.*",
            r".*Transitioning from RECOVERY to RUNNING.*",
        ):
            assert re.fullmatch(waits_for, started), waits_for
        assert "id=7]" in started
        assert (tmp_path / LISTENER_FILE).read_text() == f"PLAINTEXT {address[1]}\n"
        assert run_command("topics", "list", "--bootstrap", address[1]).code == 0
    assert process.returncode == 0


def test_the_health_check_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / LISTENER_FILE).mkdir()
    with serving(("--listener", "127.0.0.1:0"), TMPDIR=str(tmp_path), KAFKA_LOG_DIRS=str(tmp_path / "data")) as (
        _,
        said,
    ):
        assert said.startswith("ready 127.0.0.1:")
