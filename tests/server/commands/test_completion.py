"""`ottla completion`: everything can be completed, and bash really does it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.server.commands.completion import SHELLS, bash, fish, places, valued, zsh

PLACES = list(places())


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_action_option_and_choice_is_in_the_script(shell: str) -> None:
    words = {word for place in PLACES for word in place.words}
    words |= {choice for place in PLACES for _, choices in valued(place) for choice in choices}
    script = "\n".join(SHELLS[shell](PLACES))
    if shell == "fish":
        words = {word.lstrip("-") for word in words}
    assert len(words) > 40
    assert {word for word in words if word not in script} == set()


@pytest.mark.parametrize("make", [bash, zsh, fish])
def test_a_script_is_complete_for_every_place(make: object) -> None:
    assert callable(make)
    script = "\n".join(make(PLACES))
    assert {place.at for place in PLACES if place.at not in script} == set()


def test_fish_receives_completions_for_the_current_position() -> None:
    lines = list(fish(PLACES))
    assert "complete -c ottla -n '__ottla_at \"/topics\"' -a create -d 'create a topic'" in lines
    assert any(
        line.startswith("complete -c ottla -n '__ottla_at \"/serve\"' -l profile -x -a 'kafka dev' -d ")
        for line in lines
    )
    assert any(line.startswith("complete -c ottla -n '__ottla_at \"/serve\"' -l data -r -F -d ") for line in lines)
    assert [line for line in lines if line.count("'") % 2] == []


def test_zsh_completion_overrides_no_reserved_names() -> None:
    script = "\n".join(zsh(PLACES))
    assert not re.search(r"(local|\n) [^\n]*\b(path|options|commands|status)=", script.split("case")[0])
    assert [line for line in script.splitlines() if line.count("'") % 2] == []


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_ottla
printf '%s\\n' "${COMPREPLY[@]}"
"""

COMPLETED = {
    "ottla ser": {"serve"},
    "ottla topics ": {"list", "describe", "create", "delete", "status", "--help", "-h"},
    "ottla topics cre": {"create"},
    "ottla topics list --boot": {"--bootstrap"},
    "ottla topics --json cr": {"create"},
    "ottla --bootstrap h:1 topics cr": {"create"},
    "ottla serve --profile ": {"kafka", "dev"},
    "ottla serve --profile d": {"dev"},
    "ottla serve --data ./d": {""},
    "ottla serve --prof": {"--profile"},
    "ottla completion ": {"bash", "zsh", "fish", "-h", "--help"},
    "ottla zzz": {""},
}


@needs_bash
@pytest.mark.parametrize(("line", "offered"), COMPLETED.items())
def test_bash_completes_commands(line: str, offered: set[str], tmp_path: Path) -> None:
    script = tmp_path / "ottla.bash"
    script.write_text("\n".join(bash(PLACES)))
    words = line.split(" ")
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "ask", str(script), *words], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert set(done.stdout.split("\n")[:-1]) == offered


@needs_bash
def test_bash_registers_the_completion_function(tmp_path: Path) -> None:
    script = tmp_path / "ottla.bash"
    script.write_text("\n".join(bash(PLACES)))
    told = subprocess.run(
        ["bash", "--norc", "-c", f'source "{script}" && complete -p ottla'], capture_output=True, text=True, check=True
    )
    assert told.stdout == "complete -o bashdefault -o default -F _ottla ottla\n"
