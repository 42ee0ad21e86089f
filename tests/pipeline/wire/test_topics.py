"""Exceptions of Kafka's client in a task, as one line with its exit code."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from ottla.pipeline.errors import PipelineError, SourceChangedError, UsageError
from ottla.pipeline.wire.topics import reading_errors


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            "Job aborted: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [t]\n\tat x",
            UsageError,
            "not authorized to describe and read topic t at h:1",
        ),
        (
            "x org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms\n",
            PipelineError,
            "Timeout of 60000ms",
        ),
        (
            "Some data may have been lost because they are not available in Kafka any more",
            SourceChangedError,
            "call again",
        ),
        ("OffsetOutOfRangeException: x", SourceChangedError, "call again"),
        ("java.lang.OutOfMemoryError", PipelineError, "OutOfMemory"),
        ("org.apache.kafka.common.errors.WakeupException", PipelineError, "Wakeup"),
    ],
)
def test_a_task_error_is_reported_in_one_line(text: str, kind: type[PipelineError], says: str) -> None:
    with pytest.raises(PipelineError, match=r".") as raised, reading_errors("t at h:1"):
        raise PipelineError(text)
    assert type(raised.value) is kind and says in str(raised.value)
