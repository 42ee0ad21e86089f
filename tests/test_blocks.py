"""Code blocks in documentation: each is run, or its first line says why not; see `support.texts.blocks`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from support.noted import each_case
from support.sizes import some
from support.texts.blocks import Block, blocks, indented
from support.texts.loaded_once import load_clients_and_tls
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
    "a bucket": 1,  # a user's own, and the AWS tools
    "a Kafka": 3,
    "a Kafka, and Maven Central for the jars": 5,
    "a cluster": 4,
    "a container engine": 4,
    "a directory of Apache Kafka": 1,
    "a file of users": 1,
    "a new environment": 5,
    "a stopped broker": 1,
    "another machine": 1,
    "Apache Kafka's tools": 1,
    "three disks": 1,
}
"""Number of blocks that are not run, by their requirement that a machine with Python and the package index lacks."""


def of(page: str) -> list[Block]:
    return list(blocks((ROOT / page).read_text()))


@pytest.fixture
def kept_modules() -> Iterator[dict[str, ModuleType]]:
    """Yield a dictionary whose modules stay loaded."""
    load_clients_and_tls()
    kept: dict[str, ModuleType] = {}
    yield kept
    sys.modules.update({name: module for name, module in kept.items() if name not in sys.modules})


@pytest.fixture
def folder(kept_modules: dict[str, ModuleType], pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """pytester unloads the blocks' modules, and a module loaded again would have other classes of the same names."""
    yield pytester
    own = str(pytester.path)
    kept_modules.update(
        {name: each for name, each in sys.modules.items() if not (getattr(each, "__file__", "") or "").startswith(own)}
    )


@pytest.mark.parametrize("page", some(RUN_HERE, 4))
def test_the_blocks_of(page: str, folder: pytest.Pytester) -> None:
    run_blocks(page, [block for block in of(page) if block.words != "spark"], folder)


@each_case("page", [*PAGES, "pipeline/README.md"])
def test_every_block_names_its_language(page: str) -> None:
    assert indented((ROOT / page).read_text()) == [], "fence them: ```sh, ```python, ```text"
    assert [block.line for block in of(page) if not block.language] == [], "```sh, ```python, ```text"


def test_blocks_that_are_not_run_are_counted() -> None:
    found = Counter(block.not_run for page in [*PAGES, "pipeline/README.md"] for block in of(page) if block.not_run)
    assert dict(found) == NOT_RUN
