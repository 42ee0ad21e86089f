"""`ottla seed` and `ottla cases`, and the initial content of `ottla serve`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import ottla
from ottla.server.commands.cli import main
from support.broker.serve_process import ServeProcess
from support.commands.command_runs import run_command

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path / "data", admin=0) as broker:
        yield broker


@pytest.fixture
def ask(running: ottla.Broker, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function for exit code, standard output and standard error of a command line."""

    def ask(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--admin", str(running.admin)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def test_cases_are_listed_and_loaded(ask: Ask, running: ottla.Broker) -> None:
    code, out, _ = ask("cases", "list")
    assert code == 0 and out.startswith("trailing-marker\n  A committed transaction")
    assert [each["name"] for each in json.loads(ask("cases", "list", "--json")[1])] == [
        each.name for each in running.cases()
    ]
    code, out, _ = ask("cases", "load", "gap-at-the-end", "t")
    assert (code, out.splitlines()[0]) == (0, "t is gap-at-the-end: offsets 0 to 8")
    assert out.splitlines()[-1] == "consumers stop at position 5: no batch follows"
    assert json.loads(ask("cases", "load", "aborted-only", "--json")[1])["read_committed"] == []
    assert "group g-group is at epoch 2147483548" in ask("cases", "load", "group-epoch-near-its-end", "g")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("aborted-onyl",), "did you mean 'aborted-only'?"),
        (("aborted-only", "a b"), "Topic name is invalid: 'a b' contains"),
        (("aborted-only", "x" * 250), "topic: expected"),
    ],
)
def test_a_case_that_cannot_be_loaded_is_refused_in_one_line(ask: Ask, words: tuple[str, ...], said: str) -> None:
    code, out, err = ask("cases", "load", *words)
    assert (code, out) == (1, "")
    assert said in err and err.count("\n") == 1


def test_a_seed_is_applied_from_a_file_or_standard_input_and_exported(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seed.yaml").write_text(
        "topics: {a: {records: [{value: x}]}}\ngroups: {g: {a: latest}}\ncases: [aborted-only]"
    )
    code, out, _ = ask("seed", str(tmp_path / "seed.yaml"))
    assert code == 0
    assert out.splitlines()[1:] == ["a              1        1", "groups: g", "cases: aborted-only"]
    code, out, err = ask("seed", str(tmp_path / "seed.yaml"))
    assert (code, out) == (1, "")
    assert err == f"ottla: {tmp_path}/seed.yaml line 1: topics.a: topic a already exists\n"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"topics": {"b": {}}}')))
    assert json.loads(ask("seed", "-", "--json")[1])["topics"] == [{"name": "b", "partitions": 1, "records": 0}]
    assert json.loads(ask("seed", "--export")[1])["topics"]["b"] == {"partitions": 1, "replication_factor": 1}


def test_an_invalid_call_is_refused_in_one_line(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff")
    for words, said in (
        ((), "missing FILE"),
        (("none.yaml",), "cannot read none.yaml: No such file"),
        ((str(tmp_path / "latin"),), "is not UTF-8 at byte 0"),
        (("f", "--export"), "cannot be combined"),
    ):
        code, _, err = ask("seed", *words)
        assert code == 2 and said in err and err.count("\n") == 1


def test_serve_starts_with_a_seed_and_emulates_an_old_broker(tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text("topics: {a: }")
    data = str(tmp_path / "data")
    options = ("--data", data, "--listener", "127.0.0.1:0", "--seed", str(tmp_path / "seed.yaml"), "--emulate", "3.9")
    for _ in range(2):
        with ServeProcess(*options) as process:
            host, port = process.addresses[0]
            told = run_command("topics", "list", "--json", "--bootstrap", f"{host}:{port}")
            assert [each["topic"] for each in json.loads(told.out)] == ["a"], told


def test_serve_refuses_invalid_initial_content(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("topcs: {}")
    for words, said in (
        (("--emulate", "2.7"), "Invalid value 2.7 for emulate: must be one of: 2.8, 3.0"),
        (("--seed", str(bad)), "bad.yaml line 1: topcs: unknown field"),
        (("--seed", "none.yaml"), "cannot read none.yaml"),
    ):
        told = run_command("serve", "--data", str(tmp_path / "data"), "--listener", "127.0.0.1:0", *words)
        assert told.code == 2 and said in told.err
    assert not (tmp_path / "data").exists()
