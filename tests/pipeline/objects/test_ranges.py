"""Bytes of objects: in few requests, repeated after a failure, and never of an object other than the listed one."""

from __future__ import annotations

import random
import time

import pytest

pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import ExitCode, PipelineError, SourceChangedError, UsageError
from ottla.pipeline.objects import failures
from ottla.pipeline.objects.failures import PAUSES_S, as_error, patiently, within
from ottla.pipeline.objects.object_files import ObjectFiles
from ottla.pipeline.objects.ranges import AHEAD_MAX_BYTES
from support.pipeline.counting_store import CountingStore, OpenerOf, raising, stalling

ADDRESS = "s3://logs/a/b"
DATA = random.Random(1).randbytes(20 << 20)


@pytest.fixture
def store() -> CountingStore:
    made = CountingStore()
    made.put("logs/a/b", DATA)
    made.put("logs/a/c", b"other")
    return made


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAUSES_S", (0.0,) * len(PAUSES_S))


@pytest.mark.parametrize("step_bytes", [4 << 10, 164_157, 1_000_000])
def test_consecutive_small_reads_use_few_requests(store: CountingStore, step_bytes: int) -> None:
    file = ObjectFiles(OpenerOf(store)).open(ADDRESS)
    at = 0
    while piece := file.read_at(at, 61):
        assert piece == DATA[at : at + 61]
        at += step_bytes
    assert store.asked["read"] <= len(DATA) // AHEAD_MAX_BYTES + 5
    assert store.bytes_read <= len(DATA)


def test_overlapping_windows_are_fetched_once(store: CountingStore) -> None:
    file = ObjectFiles(OpenerOf(store)).open(ADDRESS)
    at, window_bytes = 0, 8 << 20
    while at < len(DATA):
        found = file.read_at(at, window_bytes)
        assert found == DATA[at : at + window_bytes]
        at += window_bytes - 1000 if at + window_bytes < len(DATA) else window_bytes
    assert (store.asked["read"], store.bytes_read) == (3, len(DATA))


def test_any_reads_give_the_bytes_of_the_object(store: CountingStore) -> None:
    chance = random.Random(2)
    file = ObjectFiles(OpenerOf(store)).open(ADDRESS)
    for _ in range(200):
        at, size_bytes = chance.randrange(len(DATA) + 100), chance.choice((1, 61, 4096, 1 << 20))
        assert file.read_at(at, size_bytes) == DATA[at : at + size_bytes]
    buffer = bytearray(100)
    assert (file.read_into(len(DATA) - 40, memoryview(buffer)), bytes(buffer[:40])) == (40, DATA[-40:])
    file.truncate(10)
    assert (file.size(), file.read_at(5, 100)) == (10, DATA[5:10])
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.read_at(0, 1)


def test_unread_data_cause_no_requests(store: CountingStore) -> None:
    files = ObjectFiles(OpenerOf(store))
    assert files.list("s3://logs/a") == ["b", "c"]
    store.forget()
    file = files.open(ADDRESS)
    assert (file.size(), files.exists("s3://logs/a/x"), files.is_dir("s3://logs/a/b"), files.is_file(ADDRESS)) == (
        len(DATA), False, False, True,
    )  # fmt: skip
    file.check()
    assert not store.asked


@pytest.mark.parametrize("error", [OSError("AWS Error SLOW_DOWN"), OSError("AWS Error UNKNOWN (HTTP status 500)")])
@pytest.mark.parametrize("kind", ["read", "open", "info", "list"])
def test_occasional_failures_are_retried(store: CountingStore, kind: str, error: OSError) -> None:
    store.before = raising(error, kinds=[kind], times=len(PAUSES_S))
    files = ObjectFiles(OpenerOf(store))
    assert files.list("s3://logs/a") == ["b", "c"]
    assert files.open(ADDRESS).read_at(7, 9) == DATA[7:16]


def test_a_persistently_failing_store_is_one_line_with_exit_code_6(store: CountingStore) -> None:
    store.before = raising(OSError("AWS Error SLOW_DOWN during GetObject operation: slow"), kinds=["read"], times=99)
    file = ObjectFiles(OpenerOf(store)).open(ADDRESS)
    with pytest.raises(PipelineError, match="s3://logs/a/b: the store does not answer") as failed:
        file.read_at(0, 1)
    assert failed.value.exit_code == 6
    assert store.asked["read"] == len(PAUSES_S) + 1


def test_a_silent_connection_is_abandoned(store: CountingStore) -> None:
    store.before = stalling(0.3, kinds=["info"], times=1)
    files = ObjectFiles(OpenerOf(store))
    filesystem, path = files.filesystem(ADDRESS)
    found = patiently(lambda: filesystem.get_file_info(path), ADDRESS, answer_s=0.05)
    assert found.size == len(DATA)
    assert store.asked["info"] == 2


def test_the_wait_for_a_response_is_limited() -> None:
    with pytest.raises(OSError, match="no answer for 0 s"):
        within(lambda: time.sleep(0.5), 0.01)
    assert within(lambda: 7, 5) == 7
    with pytest.raises(ValueError, match="as it was raised"):
        within(lambda: int("as it was raised"), 5)


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("data", [DATA[::-1], DATA + b"more"])
def test_another_object_of_the_same_name_is_reported(store: CountingStore, data: bytes, is_read_before: bool) -> None:
    files = ObjectFiles(OpenerOf(store))
    assert files.list("s3://logs/a")
    file = files.open(ADDRESS)
    if is_read_before:
        file.read_at(0, 1)
    store.put("logs/a/b", data)
    with pytest.raises(SourceChangedError, match="s3://logs/a/b was replaced or deleted"):
        file.check() if is_read_before else file.read_at(0, 1)


def test_a_deleted_object_is_reported(store: CountingStore) -> None:
    files = ObjectFiles(OpenerOf(store))
    assert files.list("s3://logs/a")
    read, unread = files.open(ADDRESS), files.open(ADDRESS)
    read.read_at(0, 1)
    del store.objects["logs/a/b"]
    with pytest.raises(SourceChangedError):
        unread.read_at(0, 1)
    with pytest.raises(SourceChangedError):
        read.check()
    assert not files.are_still([(ADDRESS, read.identity)])
    with pytest.raises(FileNotFoundError):
        ObjectFiles(OpenerOf(store)).open(ADDRESS)


def test_the_check_for_unchanged_objects_costs_one_listing_per_directory(store: CountingStore) -> None:
    files = ObjectFiles(OpenerOf(store))
    seen = [(f"s3://logs/a/{name}", files.open(f"s3://logs/a/{name}").identity) for name in ("b", "c")]
    store.forget()
    assert files.are_still(seen)
    assert dict(store.asked) == {"list": 1}
    store.put("logs/a/c", b"other")
    assert not files.are_still(seen)


REFUSED = {
    "AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: The specified bucket does not exist (Request ID: x)": "bucket not found",
    "AWS Error ACCESS_DENIED during HeadObject operation: No response body.": "rejects the credentials",
    "AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: not in our records": "rejects the credentials",
    "AWS Error SIGNATURE_DOES_NOT_MATCH during X: The request signature": "rejects the credentials",
    "AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: No response body.": "another region",
    "Looks like the configured region is 'a' while the bucket is located in 'b'. the region": "another region",
    "Unable to load libjvm: libjvm.so: cannot open shared object file": "HDFS needs",
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_a_permanent_error_is_reported_in_one_line_without_retries(said: str) -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise OSError(said)

    with pytest.raises(UsageError, match=REFUSED[said]) as refused:
        patiently(ask, ADDRESS)
    assert len(asked) == 1
    assert "\n" not in str(refused.value)
    assert "Request ID" not in str(refused.value)


def test_a_server_that_never_answered_is_not_waited_for() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise OSError("curlCode: 7, Could not connect to server")

    with pytest.raises(
        PipelineError, match="no server answers there", check=lambda error: error.exit_code == ExitCode.FAILED
    ):
        patiently(ask, "s3://never-seen/x")
    assert len(asked) == 1


def test_secrets_in_a_stores_messages_are_omitted() -> None:
    said = as_error(OSError("GET https://account/x?sv=1&sig=hush%3D&se=2 failed: access_token=hush2"), "abfs://b@a")
    assert "hush" not in str(said)
