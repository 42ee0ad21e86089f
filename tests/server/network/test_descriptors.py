"""Segments and connections use all descriptors that they can get: requests that free some still work."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.storage.disk.descriptors import KEPT_FOR_SEGMENTS, KEPT_FOR_SHORT_WORK, is_scarce
from support.broker.admin import delete, delete_records, topic_names
from support.broker.conversation import create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.serve_process import PATIENCE_S, ServeProcess

DESCRIPTORS = 96
RECORD = ("k", "v" * 50)
FEW = 5


def deletion(client: RawClient) -> None:
    assert [row.error_code for row in delete(client, "full")] == [ErrorCode.NONE]


def retention(client: RawClient) -> None:
    assert delete_records(client, "full", -1)[0] == ErrorCode.NONE


def names_if_let_in(process: ServeProcess) -> set[str] | None:
    """Return the topics that a new connection sees; None if it is closed without an answer."""
    try:
        with RawClient(*process.addresses[0]) as other:
            return topic_names(other)
    except ConnectionError:
        return None


def test_requests_that_free_descriptors_get_the_few_they_need(tmp_path: Path) -> None:
    options = ("--data", tmp_path, "--listener", "127.0.0.1:0", "--profile", "dev")
    with ServeProcess(*options, descriptors=DESCRIPTORS) as process, RawClient(*process.addresses[0]) as client:
        create_topic(client, "full", internal_segment_bytes=200)
        create_topic(client, "other")
        assert produce(client, "other", RECORD).error_code == ErrorCode.NONE  # now its log has files
        for gives_back in (retention, deletion):
            way = gives_back.__name__
            codes = [produce(client, "full", RECORD).error_code for _ in range(2 * DESCRIPTORS)]
            assert DESCRIPTORS // 2 < codes.count(ErrorCode.NONE) < DESCRIPTORS, way
            assert set(codes) == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}, way
            assert produce(client, "other", RECORD).error_code == ErrorCode.NONE, way
            with RawClient(*process.addresses[0]) as refused:
                assert refused.is_closed_by_peer(), way
            gives_back(client)
            until_s = time.monotonic() + PATIENCE_S
            # They are freed one by one. A connection is accepted once some are free for segments as well.
            while (names := names_if_let_in(process)) is None and time.monotonic() < until_s:
                time.sleep(0.05)
            assert names is not None, way
            if gives_back is deletion:
                assert create_topic(client, "full", internal_segment_bytes=200).error_code == ErrorCode.NONE
            assert topic_names(client) == {"full", "other"}, way
            assert [produce(client, "full", RECORD).error_code for _ in range(FEW)] == [ErrorCode.NONE] * FEW, way
        code, _ = process.stop()
    assert code == 0
    assert "offline" not in process.stderr and "Traceback" not in process.stderr


def test_connections_leave_some_descriptors_to_new_segments(tmp_path: Path) -> None:
    options = ("--data", tmp_path, "--listener", "127.0.0.1:0")
    with ServeProcess(*options, descriptors=DESCRIPTORS) as process, ExitStack() as clients:
        served: list[RawClient] = []
        with suppress(ConnectionError):
            while True:
                client = clients.enter_context(RawClient(*process.addresses[0]))
                topic_names(client)
                served.append(client)
        assert DESCRIPTORS // 2 < len(served) < DESCRIPTORS
        create_topic(served[0], "t")
        assert produce(served[0], "t", RECORD).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("limit", "kept", "first_scarce"),
    [
        (1_024, KEPT_FOR_SHORT_WORK, 992),
        (1_024, KEPT_FOR_SEGMENTS, 960),
        (64, KEPT_FOR_SHORT_WORK, 56),
        (64, KEPT_FOR_SEGMENTS, 48),
    ],
)
def test_under_a_small_limit_fewer_descriptors_are_reserved(
    monkeypatch: pytest.MonkeyPatch, limit: int, kept: int, first_scarce: int
) -> None:
    monkeypatch.setattr("ottla.storage.disk.descriptors.resource.getrlimit", lambda _: (limit, limit))
    assert [is_scarce(number, kept) for number in (first_scarce - 1, first_scarce)] == [False, True]
