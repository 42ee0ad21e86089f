"""The code blocks of a Markdown text, and what their first lines say of how they are to be tried.

    ```python                      run, in one namespace a page
    ```python pytest               a test file, run by pytest with the plugin; `fails` behind it: that is what it shows
    ```python spark, ```sh spark   run where there is a session of Spark, by `tests/pipeline/test_blocks_of_spark.py`
    ```sh                          run by bash; `ottla dev` and `ottla serve` go on until the next one, or the page's end
    ```yaml, json, properties, ini, toml, diff     parsed; seeds, options and ini files by what reads them
    ```java from: PATH             a piece of a file of the repository, which some other suite runs
    ```text                        no code
    ```text output                 what the block before it printed; … stands for anything
    ```sh not-run: needs REASON    not run, for a reason that `tests/test_blocks.py` lists

A block whose first line is a comment with a file's name (`# seed.yaml`) is that file for the blocks behind it. What a page needs
and does not show stands in a comment, as shell: <!-- given: ottla topics create orders -->.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$|^<!-- given:(?P<given>.*?)-->$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# ([\w./-]+\.\w+)(?=$| |\n)")
_INDENTED = re.compile(r"(?:\A|\n)(?! *(?:[-*]|\d+\.) | )[^\n]+\n\n {4}(?=\S)")
NOT_RUN = "not-run: needs "


@dataclass(frozen=True, slots=True)
class Block:
    """A block: where it begins, what it is, and the code itself, without the indent of a list that it stands in."""

    line: int
    language: str
    words: str
    text: str

    @property
    def not_run(self) -> str | None:
        """What it needs that is not at hand; None: it is run."""
        return self.words.removeprefix(NOT_RUN) if self.words.startswith(NOT_RUN) else None

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        found = _FILE.match(self.text)
        return found[1] if found else None


def blocks(text: str) -> Iterator[Block]:
    """All of them in their order, those that are `given` among them, as shell."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["given"] is not None:
            yield Block(line, "sh", "given", found["given"].strip() + "\n")
        else:
            language, _, words = found["info"].strip().partition(" ")
            yield Block(line + 1, language, words, textwrap.dedent(found["text"]))


def indented(text: str) -> list[int]:
    """The lines at which code begins that is only indented, and so does not say what it is."""
    fenceless = _BLOCK.sub(lambda found: re.sub(r"[^\n]", "-", found[0]), text)
    return [fenceless.count("\n", 0, found.end()) + 1 for found in _INDENTED.finditer(fenceless)]
