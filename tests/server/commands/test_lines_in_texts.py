"""Commands in documentation: every `ottla …` line is one that the command accepts."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.server.commands.frame.command_line import EXAMPLES, parse_command_line
from ottla.server.commands.serve import configuration

ROOT = Path(__file__).parents[3]
TEXTS = subprocess.run(
    ["git", "ls-files", "README.md", "docs/*.md", "examples/*.md", "compat/*.md", "pipeline/*.md", "docker/*"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
).stdout.split()
GUIDES = [text for text in TEXTS if text.startswith(("README", "docs/")) and text != "docs/commands.md"]
_LINE = re.compile(r"^(?:    |\s*\$ |  )?(?:[A-Z_]+=\S+ )*(ottla [a-z-].*)$", re.MULTILINE)
_IN_A_PIPE = re.compile(r"\| (ottla [a-z-].*)$", re.MULTILINE)
_FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_IN_A_SENTENCE = re.compile(r"`(ottla [a-z-]+ [^`]+)`")
_OPTIONAL = re.compile(r"\[[^\]]*\]")
_SHELLS = ("", "sh", "bash", "console", "shell")
_END = {"|", ">", ">>", "<", "&&", "&", ";", "||"}


def code_of(text: str) -> Iterator[str]:
    """Yield fenced and indented blocks."""
    yield from (block for language, block in re.findall(_FENCED, text) if language in _SHELLS)
    outside = re.sub(_FENCED, "", text)
    yield from re.findall(r"(?:^    .*\n)+", outside, re.MULTILINE)


def shown_in(name: str) -> Iterator[str]:
    """Yield the code blocks of a text; for guides also commands with arguments in a sentence, without their optional parts."""
    text = (ROOT / name).read_text()
    yield from code_of(text)
    if name not in GUIDES:
        return
    for line in _IN_A_SENTENCE.findall(re.sub(_FENCED, "", text)):
        yield " ".join(re.sub(_OPTIONAL, "", line).replace("…", "x").split()) + "\n"


def lines_of(block: str) -> Iterator[list[str]]:
    """Yield the words of each `ottla …`, without comments, explanations and shell operators."""
    block = block.replace("\\\n", " ")
    for line in [*_LINE.findall(block), *_IN_A_PIPE.findall(block)]:
        words = shlex.split(re.split(r"   +", line)[0], comments=True)
        end = next((place for place, word in enumerate(words) if word in _END), len(words))
        yield words[1:end]


LINES = [
    pytest.param(words, id=f"{name}: {' '.join(words)}")
    for name, blocks in [
        *((name, list(shown_in(name))) for name in TEXTS if name.endswith(".md")),
        ("--help", [EXAMPLES]),
    ]
    for block in blocks
    for words in lines_of(block)
]


def test_lines_are_found() -> None:
    assert {"README.md", "docs/running.md", "examples/change_feed/README.md", "--help"} <= {
        str(line.id).partition(":")[0] for line in LINES
    }
    assert list(
        lines_of("    FOO=1 ottla topics list | head\n$ ottla serve --nodes 3   # three\nx | ottla consume t\n")
    ) == [
        ["topics", "list"],
        ["serve", "--nodes", "3"],
        ["consume", "t"],
    ]


@pytest.mark.parametrize("words", LINES)
def test_a_line_is_understood(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.txt").write_text("alice:secret\n")
    asked = parse_command_line(words)
    if asked.command.name == "serve" and not asked.options.config:
        configuration(asked.options)
