"""Work on many partitions, some at a time: a failure of one does not affect the others.

Partitions are jobs of their own, and a job of few segments leaves most of a cluster idle; so several run at a time, submitted
from threads of the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from ...protocol.errors import KafkaError
from ...storage.disk.paths import TopicPartition
from ..compaction.plan import CompactionPlan
from ..errors import CorruptSourceError, PipelineError, as_pipeline_error
from .engine import Engine
from .job_results import PartitionResult

T = TypeVar("T", TopicPartition, CompactionPlan)
GIVE_UP_EVERY_S = 1.0


def run_each(
    engine: Engine,
    work: Callable[[T], PartitionResult],
    things: Sequence[T],
    *,
    at_once: int = 1,
    skips_corrupt: bool = False,
) -> list[PartitionResult]:
    """Return the result of `work` for each partition, or the plan of one, in their order.

    Args:
        engine: Counts the partitions, and cancels the running jobs once the caller is interrupted.
        at_once: Number of threads; 1 is the caller's own, as is any number if the jobs run in this process.
        skips_corrupt: A damaged log is `skipped`, which is not a failure.

    Raises:
        PipelineError: The first failure, once all others have ended. Its `results` are those of all: with `failed` and the
            reason for each that has failed.
    """
    failures: dict[int, PipelineError] = {}
    engine.progress.begin(len(things))

    def result_of(number: int) -> PartitionResult:
        thing = things[number]
        try:
            return work(thing)
        except (PipelineError, OSError, KafkaError) as error:
            failure = as_pipeline_error(error)
            outcome = "skipped" if skips_corrupt and isinstance(failure, CorruptSourceError) else "failed"
            if outcome == "failed":
                failures[number] = failure
            return PartitionResult(topic=thing.topic, partition=thing.partition, outcome=outcome, reason=str(failure))
        finally:
            engine.progress.partition_done()

    numbers = range(len(things))
    if at_once == 1 or len(things) < 2 or engine.is_in_process:
        results = [result_of(number) for number in numbers]
    else:
        with ThreadPoolExecutor(at_once, thread_name_prefix="partition") as pool:
            futures = [pool.submit(result_of, number) for number in numbers]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                engine.give_up()
                # Repeated, as a thread may have been about to begin its job.
                while wait([each for each in futures if not each.cancelled()], GIVE_UP_EVERY_S).not_done:
                    engine.give_up()
                raise
    if failures:
        first = failures[min(failures)]
        first.results = results
        raise first
    return results
