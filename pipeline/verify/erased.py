"""Search for many keys in a large store, on Spark: a task for each directory, with all keys."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from ...storage.erasure.findings import Findings
from ...storage.erasure.log_search import LogSearch
from ...storage.steps import to_the_end
from ..spark.task_logs import logged
from ..spark.tasks import Batches, collected, mapped, numbers, row, work
from ..steps import Watch

_FOUND = pa.schema([("number", pa.int64()), ("found", pa.binary())])


def searched_on(spark: SparkSession, topic: str, watch: Watch) -> Callable[[Sequence[LogSearch]], list[Findings]]:
    """Return a function that runs searches on the workers of a session; see `Search.report_by`."""

    def run(searches: Sequence[LogSearch]) -> list[Findings]:
        done = watch.step("directories searched", len(searches))

        def task(batches: Batches) -> Batches:
            for number in numbers(batches):
                with logged(f"{topic}: keys in {searches[number].directory}"):
                    try:
                        found = pickle.dumps(to_the_end(searches[number].steps()))
                    except FileNotFoundError:
                        found = b""
                yield row(_FOUND, number, found)
                done(1)

        rows = collected(mapped(work(spark, len(searches)), task, _FOUND), f"keys in {topic}")
        results: list[Findings] = []
        for each in sorted(rows, key=lambda each: each.number):
            if not each.found:
                raise FileNotFoundError(f"{searches[each.number].directory} was deleted or renamed")
            results.append(pickle.loads(bytes(each.found)))
        return results

    return run
