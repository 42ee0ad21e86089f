"""Code blocks about Spark are run in the tests' session: see `support.texts.blocks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from support.sizes import size
from support.texts.blocks import blocks
from support.texts.page_run import run_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page", ["docs/spark.md", *size((), ("pipeline/README.md", "README.md", "docs/change-feed.md"))]
)
def test_the_blocks_of(page: str, pytester: pytest.Pytester, spark: SparkSession) -> None:
    """If a page shows no data being written, `./data` has the page's topic, compacted once, and closed segments."""
    if page != "docs/spark.md":
        with ottla.Broker("data") as broker:
            broker.create_topic("orders", partitions=1, configs={"cleanup.policy": "compact"})
            broker.produce_all("orders", ((f"order-{number % 10}", str(number)) for number in range(100)))
            broker.roll("orders")
    wanted = [block for block in blocks((ROOT / page).read_text()) if block.words == "spark" or page == "docs/spark.md"]
    run_blocks(page, wanted, pytester, spark=spark)
