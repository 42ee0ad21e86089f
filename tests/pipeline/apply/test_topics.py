"""The position to continue from in a topic: what the topic has lost, and whether it is the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

import ottla
from ottla.pipeline.addresses import check_that_somebody_is_there
from ottla.pipeline.apply.state import AppliedState
from ottla.pipeline.apply.topics import TopicNow, starting_offsets, topic_of_directory
from ottla.pipeline.errors import ExitCode, PipelineError, SourceChangedError, UsageError
from ottla.pipeline.records.versions import check_goes_by_offset
from ottla.storage.topics.versions import BY_OFFSET, BY_TIMESTAMP, STRATEGY

STATE = AppliedState.first("s0", "orders", "id-1", {0: 500, 1: 20})


def test_partitions_without_an_offset_are_read_from_their_beginning() -> None:
    now = TopicNow("orders", "id-1", {0: (100, 900), 1: (20, 20), 2: (7, 9)})
    assert starting_offsets(now, STATE, takes_losses=False) == {0: 500, 1: 20, 2: -2}


@pytest.mark.parametrize(
    ("span", "said", "start"),
    [((600, 900), "found them only from offset 600 on", 600), ((0, 300), "found the log's end at offset 300", 300)],
)
def test_lost_records_are_refused_or_skipped(span: tuple[int, int], said: str, start: int) -> None:
    now = TopicNow("orders", "id-1", {0: span})
    with pytest.raises(SourceChangedError, match=f"orders-0: .*{said} .--take-losses"):
        starting_offsets(now, STATE, takes_losses=False)
    assert starting_offsets(now, STATE, takes_losses=True) == {0: start}


def test_a_topic_of_another_id_is_another_topic() -> None:
    now = TopicNow("orders", "id-2", {0: (0, 900)})
    with pytest.raises(
        SourceChangedError, match=r"found id-2: the topic was deleted and created again .--topic-made-anew"
    ):
        starting_offsets(now, STATE, takes_losses=True)
    anew = STATE.from_the_beginning("s1", "id-2")
    assert starting_offsets(now, anew, takes_losses=False) == {0: -2}


@pytest.mark.parametrize("strategy", [BY_OFFSET, BY_TIMESTAMP])
def test_a_topic_that_keeps_records_by_version_is_refused(tmp_path: Path, strategy: str) -> None:
    """A table has the last record of each key, so it would differ from the topic."""
    with ottla.Broker(tmp_path) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact", STRATEGY: strategy})
    now = topic_of_directory(str(tmp_path), "orders")
    assert now.strategy == strategy
    if strategy == BY_OFFSET:
        check_goes_by_offset("orders", now.strategy, "apply")
        return
    with pytest.raises(UsageError, match=f"orders has {STRATEGY}=timestamp, .* but apply goes by the newest one"):
        check_goes_by_offset("orders", now.strategy, "apply")


def test_an_unreachable_broker_and_an_invalid_address_are_one_line() -> None:
    with pytest.raises(
        PipelineError,
        match=r"no broker answers at 127\.0\.0\.1:1: ",
        check=lambda error: error.exit_code == ExitCode.FAILED,
    ):
        check_that_somebody_is_there("127.0.0.1:1")
    with pytest.raises(UsageError, match="--bootstrap: expected HOST:PORT"):
        check_that_somebody_is_there("localhost")
