"""Every code block of what people read is run, or says in its first line why not: see `support.texts.blocks`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

# pytester forgets what the blocks load, and these must not be loaded twice in one process.
import cryptography.hazmat.primitives.asymmetric.ec
import cryptography.x509  # noqa: F401
import pytest

from support.texts.blocks import Block, blocks, indented
from support.texts.page_run import run_blocks

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")) if path.exists()
)
RUN_HERE = [
    page
    for page in PAGES
    if page != "docs/spark.md" and any(not each.not_run for each in blocks((ROOT / page).read_text()))
]
NOT_RUN = {
    "a cluster": 2,
    "a container engine": 4,
    "a directory of Apache Kafka": 1,
    "a new environment": 2,
    "Apache Kafka's tools": 1,
    "three disks": 1,
}
"""How many blocks are not run, by what they need that a machine with Python and the package index has not."""


def of(page: str) -> list[Block]:
    return list(blocks((ROOT / page).read_text()))


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_blocks_of(page: str, pytester: pytest.Pytester) -> None:
    run_blocks(page, [block for block in of(page) if block.words != "spark"], pytester)


@pytest.mark.parametrize("page", [*PAGES, "pipeline/README.md"])
def test_blocks_say_what_they_are(page: str) -> None:
    assert indented((ROOT / page).read_text()) == [], "fence them: ```sh, ```python, ```text"
    assert [block.line for block in of(page) if not block.language] == [], "```sh, ```python, ```text"


def test_blocks_that_are_not_run_are_counted() -> None:
    found = Counter(block.not_run for page in [*PAGES, "pipeline/README.md"] for block in of(page) if block.not_run)
    assert dict(found) == NOT_RUN
