"""`ottla dev`: a broker on loopback whose directory is deleted with it, and its output for pasting."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import ottla
from ottla.server.commands.frame.command_line import parse_command_line
from ottla.server.commands.serve import _registry as registry_of_options
from support.broker.raw_client import RawClient
from support.broker.serve_process import PATIENCE_S, command
from support.commands.command_runs import run_command
from support.commands.ended import ended

METADATA = b"\0\0\0\x0e\0\x03\0\0\0\0\0\x01\xff\xff\0\0\0\0"
"""A Metadata request without a login before it."""
FREE = ("--listener", "127.0.0.1:0", "--admin", "0", "--schema-registry", "0")


@contextmanager
def dev(*arguments: str, pass_fds: Sequence[int] = ()) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `ottla dev`; yield the process and its output."""
    process = subprocess.Popen(
        command("dev", *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, pass_fds=pass_fds
    )
    with ended(process):
        assert process.stdout is not None
        lines = []
        while line := process.stdout.readline():
            lines.append(line)
            if line.startswith("Stop with"):
                break
        try:
            yield process, "".join(lines)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


def test_dev_prints_ready_and_commands_to_paste_and_leaves_nothing() -> None:
    with dev(*FREE, "--nodes", "2") as (process, text):
        ready, _, rest = text.partition("\n")
        assert re.fullmatch(r"ready 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+", ready)
        address = ready.split()[1].split(",")[0]
        # Programs read this line: docs/other-languages.md and the test suites in compat/examples.
        found = re.search(r"^control +http://(localhost:\d+) ", rest, re.MULTILINE)
        assert found is not None
        assert f"    export OTTLA_BOOTSTRAP={address}\n    export OTTLA_ADMIN={found[1]}\n" in rest
        directory = re.search(r"data +(\S+), removed at exit", rest)
        assert directory is not None and Path(directory[1]).is_dir()
        listed = run_command("nodes", "list", "--admin", found[1])
        assert listed.code == 0 and listed.out.count("yes") == 2
        assert run_command("produce", "t", "x", "--bootstrap", address).code == 0
    assert process.returncode == 0
    assert not Path(directory[1]).exists()


def test_dev_has_a_schema_registry_unless_it_is_off() -> None:
    with dev(*FREE) as (_, text):
        found = re.search(r"^schemas +http://(localhost:\d+) ", text, re.MULTILINE)
        assert found is not None
        assert run_command("schemas", "list", "--registry", found[1]).out == "no schemas\n"
    with dev(*FREE, "--schema-registry", "off") as (_, text):
        assert re.search(r"^schemas +off$", text, re.MULTILINE)


def test_a_taken_port_of_the_registry_is_reported_and_is_fatal_only_if_it_was_requested() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        run = run_command("dev", *FREE[:-1], address)
        assert run.code == 2 and f"cannot listen on SCHEMA REGISTRY://{address}: Address already in use" in run.err
        options = argparse.Namespace(schema_registry=address, registry_may_fail=True)
        assert registry_of_options(options, None) is None


def test_the_token_may_come_from_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"secret-of-this-test\n")
    os.close(writing)
    try:
        with dev(*FREE, "--admin-token-file", f"/dev/fd/{reading}", pass_fds=[reading]) as (_, text):
            found = re.search(r"^schemas +(\S+) ", text, re.MULTILINE)
            assert found is not None
            assert run_command("schemas", "list", "--registry", found[1]).code == 1
    finally:
        os.close(reading)


def test_on_all_addresses_dev_prints_the_advertised_one() -> None:
    advertised = "advertised.listeners=PLAINTEXT://broker.example:19092"
    with dev("--listener", "0.0.0.0:0", "--override", advertised, *FREE[2:]) as (_, text):
        assert re.search(r"Kafka clients +broker\.example:19092\n", text)
        assert "    export OTTLA_BOOTSTRAP=broker.example:19092\n" in text


def test_with_users_clients_log_in_and_no_password_is_printed() -> None:
    with dev(*FREE, "--user", "alice:top:secret", "--user", "bob:other:SCRAM-SHA-512") as (_, text):
        exports = dict(re.findall(r"^    export (\w+)=(\S+)$", text, re.MULTILINE))
        assert "secret" not in text and "\"sasl_plain_username\": 'alice'" in text and ", **login" in text
        file = Path(exports["OTTLA_COMMAND_CONFIG"])
        assert file.stat().st_mode & 0o777 == 0o600
        asked = ("topics", "list", "--bootstrap", exports["OTTLA_BOOTSTRAP"])
        assert run_command(*asked, "--command-config", str(file)).code == 0
        host, _, port = exports["OTTLA_BOOTSTRAP"].rpartition(":")
        with RawClient(host, int(port)) as plain:
            plain.send_bytes(METADATA)
            assert plain.is_closed_by_peer()
    assert not file.exists()


REFUSED = {
    "alice": "must be NAME:PASSWORD[:MECHANISM]",
    "alice:": "must have a name and a password",
    ":secret": "must have a name and a password",
    "alice:secret:SCRAM-SHA-255": "Invalid value for --user: the mechanism must be one of: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    "alice:secret:GSSAPI": "the mechanism must be one of: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    "alice:secret:plain": "did you mean PLAIN?",
}


@pytest.mark.parametrize(("text", "told"), REFUSED.items())
def test_an_invalid_user_is_refused_in_one_line(text: str, told: str) -> None:
    done = run_command("dev", *FREE, "--user", text)
    assert done.code != 0
    assert told in done.err and done.err.count("\n") == 1 and "secret" not in done.err


def test_users_need_a_sasl_listener() -> None:
    done = run_command("dev", "--listener", "PLAINTEXT://127.0.0.1:0", "--admin", "0", "--user", "alice:secret")
    assert done.code != 0 and "users require a SASL listener" in done.err


def test_a_given_directory_is_kept_and_commands_to_paste_are_valid(tmp_path: Path) -> None:
    with dev(*FREE, "--data", str(tmp_path / "kept")) as (_, text):
        assert f"data            {tmp_path / 'kept'}\n" in text
        lines = re.findall(r"^    (ottla .*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        parse_command_line(line.split()[1:])
    assert (tmp_path / "kept" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("which", ["--listener", "--admin", "--schema-registry"])
def test_a_port_in_use_is_one_line_with_a_remedy(
    which: str, broker: ottla.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {"--listener": "127.0.0.1:0", "--admin": "0", "--schema-registry": "0"} | {which: broker.bootstrap}
    words = [word for pair in taken.items() for word in pair]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    done = run_command("dev", *words)
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert f"{broker.bootstrap}: Address already in use" in line
    assert line.endswith("; use --listener 127.0.0.1:0, --admin 0 and --schema-registry 0 for free ports")
    assert list(temporary.iterdir()) == []
