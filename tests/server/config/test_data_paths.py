"""Data directories with a comma in their path: the error names them, since `log.dirs` would split them into several."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server.commands.cli import main
from ottla.server.config.properties import refuse_comma
from ottla.storage.topics.options import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my,data"
    made.mkdir()
    return made


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder


def message_for(name: str, given: object, folder: Path) -> str:
    return (
        f"Invalid value {given} for {name}: {folder} is a single path, but log.dirs separates directories with commas;"
        " use a symbolic link without a comma in its name"
    )


@pytest.mark.parametrize("below", [".", "not/there/yet"])
def test_an_existing_path_with_a_comma_is_refused(folder: Path, below: str) -> None:
    given = str(folder) if below == "." else f"{folder}/{below}"
    with pytest.raises(ConfigError) as refused:
        refuse_comma("--data", given)
    assert str(refused.value) == message_for("--data", given, folder)


@pytest.mark.parametrize("given", ["/a,/b", "a,b", "/a, /b", ",", "/a,", "", "x"])
def test_several_paths_are_separated_as_in_log_dirs(given: str) -> None:
    refuse_comma("--data", given)


def test_a_broker_refuses_the_path_and_creates_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        ottla.Broker(str(folder / "logs"))
    assert str(refused.value) == message_for("data_dir", folder / "logs", folder)
    assert (os.listdir(tmp_path), os.listdir(folder)) == (["my,data"], [])


def test_a_temporary_directory_with_a_comma_is_refused_by_its_settings_name(temporary: Path) -> None:
    with pytest.raises(ConfigError) as refused, ottla.Broker():
        pass
    assert str(refused.value) == message_for("TMPDIR", temporary, temporary)
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("line", [["dev"], ["dev", "--tls"]], ids=" ".join)
def test_ottla_dev_refuses_the_path_and_leaves_nothing(
    temporary: Path, capsys: pytest.CaptureFixture[str], line: list[str]
) -> None:
    assert main([*line, "--listener", "127.0.0.1:0"]) == 2
    assert capsys.readouterr().err.strip() == f"ottla: {message_for('TMPDIR', temporary, temporary)}"
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_command_refuses_the_path(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--data", str(folder), "--listener", "127.0.0.1:0"]) == 2
    assert message_for("--data", folder, folder) in capsys.readouterr().err
