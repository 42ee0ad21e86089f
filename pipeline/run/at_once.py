"""Work on many partitions, some at a time: what becomes of one is nothing to the others.

Partitions are jobs of their own, and a job of few segments leaves most of a cluster idle; so several run at a time, submitted
from threads of the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from ...protocol.errors import KafkaError
from ...storage.disk.paths import TopicPartition
from ..errors import CorruptSourceError, PipelineError, as_pipeline_error
from .job_results import PartitionResult

T = TypeVar("T")
GIVE_UP_EVERY_S = 1.0


def of_each(
    work: Callable[[T], PartitionResult],
    things: Sequence[T],
    partition_of: Callable[[T], TopicPartition],
    *,
    at_once: int,
    skips_corrupt: bool = False,
    give_up: Callable[[], None],
) -> list[PartitionResult]:
    """What `work` says of each, in their order.

    Args:
        at_once: In so many threads; 1 is the caller's own.
        skips_corrupt: A damaged log is `skipped`, which is no failure.
        give_up: Ends what runs, once the caller is interrupted; called again and again until nothing does.

    Raises:
        PipelineError: The first failure, once all others have ended. Its `results` are those of all: with `failed` and the
            reason for each that has failed.
    """
    failures: dict[int, PipelineError] = {}

    def result_of(number: int) -> PartitionResult:
        thing = things[number]
        topic, partition = partition_of(thing)
        try:
            return work(thing)
        except (PipelineError, OSError, KafkaError) as error:
            failure = as_pipeline_error(error)
            outcome = "skipped" if skips_corrupt and isinstance(failure, CorruptSourceError) else "failed"
            if outcome == "failed":
                failures[number] = failure
            return PartitionResult(topic=topic, partition=partition, outcome=outcome, reason=str(failure))

    numbers = range(len(things))
    if at_once == 1 or len(things) < 2:
        results = [result_of(number) for number in numbers]
    else:
        with ThreadPoolExecutor(at_once, thread_name_prefix="partition") as pool:
            futures = [pool.submit(result_of, number) for number in numbers]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                give_up()
                # A thread may have been about to begin its job.
                while wait([each for each in futures if not each.cancelled()], GIVE_UP_EVERY_S).not_done:
                    give_up()
                raise
    if failures:
        first = failures[min(failures)]
        first.results = results
        raise first
    return results
