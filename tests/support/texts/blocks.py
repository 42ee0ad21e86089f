"""The code blocks of a Markdown text; their first lines say how they are tested.

    ```python                      run, in one namespace per page
    ```python pytest               a test file, run by pytest with the plugin; with `fails` its failure is the example
    ```python spark, ```sh spark   run where a session of Spark exists, by `tests/pipeline/test_blocks_of_spark.py`
    ```sh                          run by bash; `ottla dev` and `ottla serve` run until the next one, or the page's end
    ```yaml, json, properties, ini, toml, diff     parsed; seeds, options and ini files by the code that reads them
    ```java from: PATH             a piece of a file of the repository, which some other suite runs
    ```text                        no code
    ```text output                 the output of the block before it; … stands for anything
    ```sh not-run: needs REASON    not run, for a reason that `tests/test_blocks.py` lists

A block whose first line is a comment with a file's name (`# seed.yaml`) is that file for the blocks after it. Hidden
preparation of a page is a comment with shell code: <!-- given: ottla topics create orders -->.
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
    """A block: its line, its kind, and its code without the indent of an enclosing list."""

    line: int
    language: str
    words: str
    text: str

    @property
    def not_run(self) -> str | None:
        """The missing requirement; None: the block is run."""
        return self.words.removeprefix(NOT_RUN) if self.words.startswith(NOT_RUN) else None

    @property
    def file(self) -> str | None:
        """The name of the file that the block contains."""
        found = _FILE.match(self.text)
        return found[1] if found else None


def blocks(text: str) -> Iterator[Block]:
    """Yield all blocks in their order, including those that are `given`, as shell."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["given"] is not None:
            yield Block(line, "sh", "given", found["given"].strip() + "\n")
        else:
            language, _, words = found["info"].strip().partition(" ")
            yield Block(line + 1, language, words, textwrap.dedent(found["text"]))


def indented(text: str) -> list[int]:
    """Return the lines at which indented code begins; such code has no first line that says what it is."""
    fenceless = _BLOCK.sub(lambda found: re.sub(r"[^\n]", "-", found[0]), text)
    return [fenceless.count("\n", 0, found.end()) + 1 for found in _INDENTED.finditer(fenceless)]
