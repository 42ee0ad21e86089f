"""The admin listener: refusals, leases that keep the cleaner off a partition, and segments that are installed through it."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from crc32c import crc32c

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.cleaning.leases import LEASE_MS_MAX
from ottla.server.config.static_config import static_config
from ottla.server.http import replies
from ottla.server.http.access import Access, HttpRefusal, parse_address
from ottla.server.http.conversation import BODY_BYTES_MAX, HEAD_BYTES_MAX, HttpConversation
from ottla.server.http.json_values import encoded
from ottla.server.http.listener import AdminHttp
from ottla.server.http.replies import Reply, json_object
from ottla.server.http.routing import Route
from ottla.server.http.table import CallTable
from ottla.server.runtime import time_slices
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import CLEANER_CHECKPOINT, TopicPartition, staging_root
from ottla.storage.logs.staged_segment import MANIFEST_FILE
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.config import ConfigError, LogConfig
from support.broker.admin import delete_records
from support.broker.admin_calls import AdminCalls
from support.broker.compacting import QUICK, VALUE, alter, consume, create_compacted, let_clean
from support.broker.conversation import produce
from support.broker.raw_client import RawClient
from support.broker.serve_process import ServeProcess
from support.cleaner.choosing import filthiest
from support.commands.command_runs import run_command
from support.disk.gated_files import GatedFiles
from support.logs.batches import batch, old_message
from support.sizes import full_only, size, some

T_0 = TopicPartition("t", 0)
HERE: dict[str, Any] = {"topic": "t", "partition": 0}
BATCHES = 6


class Calls:
    """A client of an admin listener."""

    def __init__(self, address: str, data_dir: Path) -> None:
        self.address, self.data_dir = address, data_dir
        self.ask = AdminCalls(address).ask

    def post(self, name: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        return self.ask("POST", f"/v1/cleaning/{name}", HERE | fields)

    def status(self) -> dict[str, Any]:
        status, answer = self.ask("GET", "/v1/cleaning/status?topic=t&partition=0")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def pause(self, lease_ms: int = 60_000) -> str:
        status, answer = self.post("pause", lease_ms=lease_ms)
        assert status == 200, answer
        lease = answer["lease"]
        assert isinstance(lease, str)
        return lease


class Served(Calls):
    """A broker with a compacted topic of a few segments, whose cleaner is idle, and its admin listener."""

    def __init__(self, broker: ottla.Broker, client: RawClient, data_dir: Path) -> None:
        assert broker.admin is not None
        super().__init__(broker.admin, data_dir)
        self.broker, self.client = broker, client

    def offsets(self) -> list[int]:
        return [record.offset for record in consume(self.client, "t")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    data_dir = tmp_path / "data"
    # Nothing is dirty enough by itself: passes begin when a test starts them.
    with (
        ottla.Broker(str(data_dir), overrides=QUICK, admin="0") as broker,
        RawClient(*address(broker)) as client,
    ):
        create_compacted(client, "t", min_cleanable_dirty_ratio=1)
        for number in range(BATCHES):
            produce(client, "t", (f"k{number % 2}", VALUE))
        yield Served(broker, client, data_dir)


def address(broker: ottla.Broker) -> tuple[str, int]:
    host, port = broker.bootstrap.rsplit(":", 1)
    return host, int(port)


class StagedHere:
    """A segment in the staging folder that replaces the partition's first ones, and keeps one record of those."""

    def __init__(self, served: Calls, segments: int = 3, where: str = "plan/0", last_offset: int = 2) -> None:
        self.sources = served.status()["segments"][:segments]
        self.directory = Path(staging_root(str(served.data_dir)), where)
        self.directory.mkdir(parents=True)
        made = batch((f"k{last_offset % 2}", VALUE), base_offset=last_offset)
        segment = LogSegment.create(OsFiles(), str(self.directory), 0, LogConfig(), 0)
        segment.append(made, last_offset=last_offset, max_timestamp_ms=1_000, max_timestamp_offset=last_offset)
        segment.on_roll()
        segment.flush()
        segment.log_file.close()
        self.manifest = {
            "base_offset": 0,
            "source_base_offsets": [base_offset for base_offset, _ in self.sources],
            "files": {path.name: [path.stat().st_size, crc32c(path.read_bytes())] for path in self.directory.iterdir()},
        }
        self.write_manifest()

    def write_manifest(self) -> None:
        text = json.dumps(self.manifest).encode()
        (self.directory / MANIFEST_FILE).write_bytes(text)
        self.fields: dict[str, Any] = {
            "sources": self.sources,
            "staged": str(self.directory),
            "manifest_crc": crc32c(text),
        }


# Access


@pytest.mark.parametrize(
    ("text", "found"), [("8080", ("localhost", 8080)), ("localhost:0", ("localhost", 0)), ("[::1]:9", ("::1", 9))]
)
def test_local_addresses_are_accepted(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize("text", ["0.0.0.0:80", "example.org:80", "192.168.1.1:80", "127.0.0.1", "127.0.0.1:65536", ""])
def test_public_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--admin"):
        parse_address(text)


def test_without_the_option_the_listener_is_absent(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        assert broker.admin is None


# Requests that are not calls

REFUSED: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", "/v1", None, {}, 404),
    ("GET", "/v1/cleaning/pause", None, {}, 405),
    ("POST", "/v1/cleaning/status", {}, {}, 405),
    ("GET", "/v1/cleaning/status", None, {}, 422),
    ("GET", "/v1/cleaning/status?topic=t&partition=-1", None, {}, 422),
    ("GET", "/v1/cleaning/status?topic=u&partition=0", None, {}, 404),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": 1}, {"Origin": "http://example.org"}, 403),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": 1}, {"Content-Type": "text/plain"}, 415),
    ("POST", "/v1/cleaning/pause", "{", {}, 400),
    ("POST", "/v1/cleaning/pause", "[" * 100_000, {}, 400),
    ("POST", "/v1/cleaning/pause", "[]", {}, 400),
    ("POST", "/v1/cleaning/pause", b"\xff", {}, 400),
    ("POST", "/v1/cleaning/pause", HERE, {}, 422),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": 0}, {}, 422),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": True}, {}, 422),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": 10**10}, {}, 422),
    ("POST", "/v1/cleaning/pause", HERE | {"lease_ms": 1, "lease": "none"}, {}, 409),
    ("POST", "/v1/cleaning/pause", {"topic": "u", "partition": 0, "lease_ms": 1}, {}, 404),
    ("POST", "/v1/cleaning/resume", HERE | {"lease": "none"}, {}, 409),
    ("POST", "/v1/cleaning/install", HERE | {"lease": "none", "sources": [[0]]}, {}, 422),
    (
        "POST",
        "/v1/cleaning/install",
        HERE | {"lease": "none", "sources": [[0, 1]], "staged": "/", "manifest_crc": 0},
        {},
        409,
    ),
    ("POST", "/v1/cleaning/pause", b" " * (BODY_BYTES_MAX + 1), {}, 413),
]


def test_an_invalid_call_gets_one_sentence_and_a_status(served: Served) -> None:
    for method, target, body, headers, expected in REFUSED:
        status, answer = served.ask(method, target, body, **headers)
        assert (status, list(answer)) == (expected, ["error"]), (method, target, body, answer)
    assert served.status()["cleaning"] == "not held"


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * (HEAD_BYTES_MAX + 1),
        b"POST /v1/cleaning/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_invalid_http_ends_only_its_connection(served: Served, data: bytes) -> None:
    host, port = served.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as broken:
        broken.sendall(data)
        answer = b"".join(iter(lambda: broken.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 4") and b'"error"' in answer
    assert served.status()["cleaning"] == "not held"


def test_a_connection_that_ends_inside_a_request_is_not_an_error(served: Served) -> None:
    host, port = served.address.split(":")
    for data in (
        b"",
        b"GET /v1",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ):
        with socket.create_connection((host, int(port)), timeout=60) as gone:
            gone.sendall(data)
    assert served.status()["cleaning"] == "not held"


def test_a_connection_serves_consecutive_requests(served: Served) -> None:
    connection = http.client.HTTPConnection(served.address, timeout=60)
    for _ in range(3):
        connection.request("GET", "/v1/cleaning/status?topic=t&partition=0")
        assert connection.getresponse().read().startswith(b"{")
    connection.close()


METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "NONE"]
PATHS = ["/v1/cleaning/status?topic=t&partition=0", "/v1/cleaning/status", "/v1/cleaning/pause", "/v1", "*"]


HEADERS: list[dict[str, str]] = [
    {},
    {"Content-Type": "application/json"},
    {"Upgrade": "h2c", "Connection": "Upgrade"},
]


def test_every_method_is_answered(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    for method, path, headers in list(product(METHODS, PATHS, HEADERS))[:: size(4, 1)]:  # each of them is in it
        connection = http.client.HTTPConnection(served.address, timeout=60)
        for _ in range(2):  # after any request, the connection continues or ends
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            assert 200 <= response.status < 500, (method, path, headers)
            assert body.startswith(b"{") != (method == "HEAD"), (method, path, headers)
        connection.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_head_is_get_without_the_body(served: Served) -> None:
    found = []
    for method in ("GET", "HEAD"):
        connection = http.client.HTTPConnection(served.address, timeout=60)
        connection.request(method, PATHS[0])
        response = connection.getresponse()
        found.append((response.status, response.getheader("content-length"), len(response.read())))
        connection.close()
    (status, length, body_bytes), head = found
    assert (status, str(body_bytes)) == (200, length) and head == (200, length, 0)


HOSTS = {
    "localhost": 200,
    "LOCALHOST:1": 200,
    "127.0.0.1": 200,
    "127.0.0.1:9644": 200,
    "127.9.9.9": 200,
    "[::1]:9644": 200,
    "[::1]": 200,
    "[0:0:0:0:0:0:0:1]:1": 200,
    "localhost:": 200,
    "localhost:x.evil": 403,
    "localhost:9644.evil.example": 403,
    "localhost:9644:1": 403,
    "localhost:123456": 403,
    "localhost:-1": 403,
    "localhost:²": 403,
    "localhost@evil.example": 403,
    "evil.example@localhost": 403,
    "localhost/evil.example": 403,
    "localhost evil.example": 403,
    "localhost,evil.example": 403,
    "localhost%00.evil": 403,
    "[::1]evil": 403,
    "[::1]:evil": 403,
    "[::1]]": 403,
    "[::1": 403,
    "::1": 403,
    "[localhost]": 403,
    "[127.0.0.1]": 403,
    "[::1%25lo]": 403,
    "127.1": 403,
    "127.0.0.1x": 403,
    "evil.example": 403,
    "evil.example:9644": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "192.168.1.1": 403,
    "[::2]": 403,
    "": 403,
}


def test_only_local_host_names_are_answered(served: Served) -> None:
    """A web page may have its own name resolve to 127.0.0.1; its browser sends that name, and no `Origin`."""
    assert {host: served.ask("GET", PATHS[0], Host=host)[0] for host in HOSTS} == HOSTS


# Leases


def test_the_cleaner_leaves_a_leased_partition_alone(served: Served) -> None:
    lease = served.pause()
    alter(served.client, "t", min_cleanable_dirty_ratio=0)
    wait_for_cleaning_of_another_topic(served)
    assert served.offsets() == list(range(BATCHES))
    assert served.status()["cleaning"] == "paused"
    assert served.post("pause", lease_ms=1)[0] == 409
    assert served.post("resume", lease=lease) == (200, {})
    let_clean(served.broker)
    assert served.offsets() == [3, 4, 5]
    assert served.post("resume", lease=lease)[0] == 409


def wait_for_cleaning_of_another_topic(served: Served) -> None:
    """Wait until another due topic is cleaned; without the lease, this one would have been as well."""
    create_compacted(served.client, "other")
    for _ in range(3):
        produce(served.client, "other", ("k", VALUE))
    manager = served.broker.inner.services.cleaning.manager

    async def once() -> None:
        found = filthiest(manager, served.broker.inner.clock.now_ms())
        if found is not None:
            assert found.log.topic_partition != T_0
            manager.done_cleaning(found)

    served.broker.run(once)


def test_a_lease_expires_by_the_brokers_clock(served: Served) -> None:
    lease = served.pause(lease_ms=60_000)
    served.broker.advance_clock(40_000)
    assert served.post("pause", lease_ms=60_000, lease=lease)[0] == 200
    served.broker.advance_clock(40_000)  # the clock continues during the lease
    assert served.status()["cleaning"] == "paused"
    served.broker.advance_clock(20_000)
    assert served.status() | {"now_ms": 0} == served.status() | {
        "now_ms": 0,
        "cleaning": "not held",
        "lease_expires_ms": None,
    }
    assert served.post("install", lease=lease, **StagedHere(served).fields)[0] == 409
    assert served.pause() != lease


def test_a_partition_under_a_lease_can_be_deleted(served: Served) -> None:
    lease = served.pause()
    topic = served.broker.inner.services.topics.get("t")
    assert topic is not None
    served.broker.run(served.broker.inner.services.topic_admin.delete, topic)
    assert served.post("resume", lease=lease, clean_up_to=0)[0] == 404
    assert served.post("resume", lease=lease)[0] == 200


# Installing


def test_a_staged_segment_replaces_its_sources(served: Served) -> None:
    staged = StagedHere(served)
    lease = served.pause()
    before = served.status()["segments"]
    size_bytes = staged.manifest["files"]["00000000000000000000.log"][0]  # type: ignore[index]
    assert served.post("install", lease=lease, **staged.fields) == (200, {"base_offset": 0, "size_bytes": size_bytes})
    assert served.status()["segments"] == [[0, size_bytes], *before[3:]]
    assert served.status()["cleaning"] == "paused"
    assert served.offsets() == [2, 3, 4, 5]
    assert served.post("resume", lease=lease, clean_up_to=3)[0] == 200
    assert OffsetCheckpoint(OsFiles(), f"{served.data_dir}/{CLEANER_CHECKPOINT}").read() == {T_0: 3}
    produce(served.client, "t", ("k9", VALUE))
    served.broker.stop()
    served.broker.start()
    with RawClient(*address(served.broker)) as client:
        assert [record.offset for record in consume(client, "t")] == [2, 3, 4, 5, 6]


def test_a_swap_interrupted_by_a_crash_is_repeated(served: Served) -> None:
    """The new segment is in place, and its sources after its last offset still exist."""
    staged = StagedHere(served, last_offset=0)
    lease = served.pause()
    assert served.post("install", lease=lease, **staged.fields | {"sources": staged.sources[:1]})[0] == 200
    half = served.status()["segments"]
    assert [base_offset for base_offset, _ in half[:4]] == [0, 1, 2, 3]
    assert served.post("install", lease=lease, **staged.fields | {"sources": half[:3]})[0] == 200
    assert [base_offset for base_offset, _ in served.status()["segments"][:2]] == [0, 3]
    assert served.offsets() == [0, 3, 4, 5]


def test_a_segment_that_overlaps_the_next_is_not_installed(served: Served) -> None:
    staged = StagedHere(served)
    fields = staged.fields | {"sources": staged.sources[:2]}
    status, answer = served.post("install", lease=served.pause(), **fields)
    assert status == 422 and "expected offsets below 2, found 2" in answer["error"]
    assert served.offsets() == list(range(BATCHES))


def test_only_closed_segments_count_as_clean(served: Served) -> None:
    lease = served.pause()
    status, answer = served.post("resume", lease=lease, clean_up_to=BATCHES)
    assert status == 422 and f"(limit {BATCHES - 1})" in answer["error"]
    assert served.post("resume", lease=lease, clean_up_to=BATCHES - 1)[0] == 200


def test_the_cleaned_range_may_have_been_deleted(served: Served) -> None:
    """DeleteRecords may have come after the last group."""
    lease = served.pause()
    alter(served.client, "t", cleanup_policy="compact,delete", retention_ms=-1)
    assert delete_records(served.client, "t", 3) == (ErrorCode.NONE, 3)
    assert served.post("resume", lease=lease, clean_up_to=2) == (200, {})
    assert served.status()["cleaning"] in ("not held", "in progress")


def test_only_matching_files_are_installed(served: Served, tmp_path: Path) -> None:
    staged = StagedHere(served)
    elsewhere = StagedHere(served, where="../elsewhere")
    (staged.directory.parent / "link").symlink_to(elsewhere.directory)
    lease = served.pause()
    first, second, third = staged.sources
    refused: list[tuple[int, dict[str, Any]]] = [
        (409, {"sources": [first, third]}),
        (409, {"sources": [[0, first[1] + 1], second, third]}),
        (409, {"sources": [second, first]}),
        (409, {"sources": [[77, 1]]}),
        (409, {"sources": served.status()["segments"]}),  # including the active segment
        (422, {"sources": [second, third]}),
        (422, {"sources": served.status()["segments"][:4]}),
        (422, {"manifest_crc": 1}),
        (422, {"staged": str(tmp_path)}),
        (422, {"staged": "plan/0"}),
        (422, {"staged": str(staged.directory / "none")}),
        (422, {"staged": str(elsewhere.directory)}),
        (422, {"staged": f"{staged.directory}/../../../elsewhere"}),
        (422, {"staged": str(staged.directory.parent / "link")}),
    ]
    for expected, fields in refused:
        status, answer = served.post("install", lease=lease, **staged.fields | fields)
        assert status == expected, (fields, answer)
    alter(served.client, "t", cleanup_policy="delete")
    assert served.post("install", lease=lease, **staged.fields)[0] == 409
    assert served.offsets() == list(range(BATCHES))
    assert served.status()["cleaning"] == "paused"
    assert not list((served.data_dir / "t-0").glob("*.cleaned"))


@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_damaged_files_are_not_installed(served: Served, kind: str) -> None:
    staged = StagedHere(served)
    (staged.directory / f"00000000000000000000.{kind}").write_bytes(b"damaged")
    lease = served.pause()
    status, answer = served.post("install", lease=lease, **staged.fields)
    assert status == 422 and f".{kind}: expected" in answer["error"]
    assert served.offsets() == list(range(BATCHES))


def test_a_staged_segment_of_an_old_format_is_not_installed(served: Served) -> None:
    staged = StagedHere(served)
    name, data = f"{0:020}.log", old_message(1, 2)
    (staged.directory / name).write_bytes(data)
    staged.manifest["files"][name] = [len(data), crc32c(data)]  # type: ignore[index]
    staged.write_manifest()
    status, answer = served.post("install", lease=served.pause(), **staged.fields)
    assert status == 422 and "record format v1" in answer["error"]
    assert served.offsets() == list(range(BATCHES))


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "nothing": lambda _: None,
}


SEGMENT_FILES = ["00000000000000000000.log", "00000000000000000000.index", MANIFEST_FILE]


@pytest.mark.parametrize(("what", "name"), some(product(NO_FILES, SEGMENT_FILES), 5))
def test_links_and_directories_are_not_installed(served: Served, what: str, name: str) -> None:
    """A link would be linked as a link: the log's bytes would be, and could be deleted, somewhere else."""
    staged = StagedHere(served)
    path = staged.directory / name
    path.rename(path.with_name("elsewhere"))
    NO_FILES[what](path)
    status, answer = served.post("install", lease=served.pause(), **staged.fields)
    assert status == 422 and f"{name}: expected" in answer["error"] and "no regular file" in answer["error"]
    assert served.offsets() == list(range(BATCHES))
    assert not list((served.data_dir / "t-0").glob("*.cleaned"))


def test_a_recreated_topic_refuses_the_install(served: Served) -> None:
    """Segments of another topic may begin at the same offsets and have the same sizes."""
    staged, lease = StagedHere(served), served.pause()
    before = served.status()["segments"]
    topic = served.broker.inner.services.topics.get("t")
    assert topic is not None
    served.broker.run(served.broker.inner.services.topic_admin.delete, topic)
    create_compacted(served.client, "t", min_cleanable_dirty_ratio=1)
    for number in range(BATCHES):
        produce(served.client, "t", (f"k{number % 2}", VALUE.upper()))
    assert served.status()["segments"] == before
    for name, fields in (("install", staged.fields), ("resume", {"clean_up_to": 1})):
        status, answer = served.post(name, lease=lease, **fields)
        assert (status, answer["error"]) == (409, "t-0 was deleted and created again after the lease was granted")
    assert {record.value for record in consume(served.client, "t")} == {VALUE.upper().encode()}
    assert served.post("resume", lease=lease) == (200, {})
    assert served.status()["cleaning"] == "not held"


def test_a_data_directory_is_resolved_to_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may have another working directory; files next to a link may be on another disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with ottla.Broker("link", overrides=QUICK, admin="0") as broker, RawClient(*address(broker)) as client:
        create_compacted(client, "t", min_cleanable_dirty_ratio=1)
        for number in range(BATCHES):
            produce(client, "t", (f"k{number % 2}", VALUE))
        assert broker.admin is not None
        calls = Calls(broker.admin, tmp_path / "real")
        assert calls.status()["data_dir"] == str(tmp_path / "real")
        assert calls.post("install", lease=calls.pause(), **StagedHere(calls).fields)[0] == 200


def test_a_manifest_may_name_only_files_of_its_segment(served: Served) -> None:
    staged = StagedHere(served)
    staged.manifest["files"]["../../../data/meta.properties"] = [1, 1]  # type: ignore[index]
    staged.write_manifest()
    status, answer = served.post("install", lease=served.pause(), **staged.fields)
    assert status == 422 and "expected the files of segment 0" in answer["error"]


def test_a_partition_under_deletion_refuses_an_install(served: Served) -> None:
    """A deletion pauses its partition first."""
    lease = served.pause()
    cleaning = served.broker.inner.services.cleaning
    served.broker.run(cleaning.pause, T_0)
    staged = StagedHere(served)
    status, answer = served.post("install", lease=lease, **staged.fields)
    assert (status, answer["error"]) == (409, "t-0 is about to be truncated or deleted")

    async def resume() -> None:
        cleaning.resume(T_0)

    served.broker.run(resume)
    assert served.post("install", lease=lease, **staged.fields)[0] == 200


async def test_a_deletion_waits_for_an_install_and_a_lease_lasts_as_long(tmp_path: Path) -> None:
    files = GatedFiles()
    static = static_config(
        profile="dev",
        flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")},
        overrides=QUICK,
    )
    http = AdminHttp("0")
    async with run_supervisor(static, files=files, admin=http) as supervisor:
        broker = supervisor.broker

        def begin() -> StagedHere:
            host, _, port = broker.bootstrap.rpartition(":")
            with RawClient(host, int(port)) as client:
                create_compacted(client, "t", min_cleanable_dirty_ratio=1)
                for number in range(BATCHES):
                    produce(client, "t", (f"k{number % 2}", VALUE))
            return StagedHere(calls)

        calls = Calls(http.address, tmp_path / "data")
        staged = await trio.to_thread.run_sync(begin)
        lease = await trio.to_thread.run_sync(calls.pause)
        found: list[int] = []
        topic = broker.services.topics.get("t")
        assert topic is not None

        async def install() -> None:
            answer = await trio.to_thread.run_sync(partial(calls.post, "install", lease=lease, **staged.fields))
            found.append(answer[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(install)
            await files.reached()
            broker.clock.advance(LEASE_MS_MAX)
            nursery.start_soon(broker.services.topic_admin.delete, topic)
            while broker.services.cleaning.manager.state_name(T_0) != "being aborted":
                await trio.lowlevel.checkpoint()
            assert (tmp_path / "data" / "t-0").exists()
            files.let_on()
        assert found == [200]
        assert not (tmp_path / "data" / "t-0").exists()
        while broker.services.cleaning.manager.state_name(T_0) != "not held":
            await trio.lowlevel.checkpoint()


@full_only  # `test_the_command_reads_the_token_from_a_file_or_the_environment` has such a process as well
def test_the_command_line_enables_the_listener(tmp_path: Path) -> None:
    with ServeProcess("--data", tmp_path, "--listener", "127.0.0.1:0", "--admin", "0") as server:
        code, _ = server.stop()
    assert code == 0
    (line,) = [line for line in server.stderr.splitlines() if "ottla.admin" in line]
    assert "admin HTTP listener on localhost:" in line


def test_the_command_line_refuses_foreign_addresses(tmp_path: Path) -> None:
    refused = run_command("serve", "--data", str(tmp_path), "--listener", "127.0.0.1:0", "--admin", "0.0.0.0:80")
    assert refused.code == 2
    assert "must be a loopback address" in refused.err
    assert not list(tmp_path.iterdir())


class TellsPasses:
    """A conversation that records how long its body was, and in which scheduler pass that was known."""

    def __init__(self) -> None:
        self.passes = 0
        self.table = CallTable()

    async def count_passes(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            self.passes += 1

    async def answer(self, route: Route[Any], body: bytes) -> Reply:
        return Reply(200, json.dumps({"bytes": len(body), "passes": self.passes}).encode())


async def test_other_tasks_run_while_a_body_of_tiny_chunks_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    calls, (client, server) = TellsPasses(), trio.testing.memory_stream_pair()
    head = "POST /v1/cleaning/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    await client.send_all(head.encode() + b"1\r\nx\r\n" * 500 + b"0\r\n\r\n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(calls.count_passes)
        nursery.start_soon(HttpConversation(server, calls, Access(None, "of the page")).run)
        answer = b""
        while b"}" not in answer:
            answer += bytes(await client.receive_some(1000))
        nursery.cancel_scope.cancel()
    told = json.loads(answer[answer.index(b"{") :])
    assert told["bytes"] == 500 and told["passes"] >= 500


LARGE_BODIES = {
    "sources": json.dumps({"sources": [[at, at + 1] for at in range(10_000)]}),
    "texts": json.dumps(
        {"topic": 'ü\u20ac\U0001f600 "\\ ' * 10_000, "deep": [[[[{}]]]], "numbers": [1.5, -1, 1e3, True, None]}
    ),
    "surrogates": '{"a": "' + "\\ud800" * 12_000 + '"}',
    "no JSON": "[" + "1," * 40_000 + "]",
    "no object": "[" + "1," * 40_000 + "1]",
    "cut short": json.dumps({"a": ["b"] * 20_000})[:-3],
    "too deep": "[" * 70_000,
}


@pytest.mark.parametrize("name", LARGE_BODIES)
def test_a_large_body_is_parsed_the_same_in_pieces(name: str) -> None:
    """The decoder in C lets no other thread run before it ends, 50 ms for the largest body; Python's own decoder does."""
    body = LARGE_BODIES[name].encode()
    assert len(body) > replies.READ_AT_ONCE_BYTES
    found: list[Any] = []
    wanted: list[Any] = []
    for limit_bytes, told in ((0, found), (1 << 30, wanted)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replies, "READ_AT_ONCE_BYTES", limit_bytes)
            try:
                told.append(json_object(body))
            except HttpRefusal as error:
                told.append(error.status)
    assert found == wanted
    if isinstance(found[0], dict):
        assert json.loads(encoded(found[0])) == found[0]


def test_large_json_is_read_and_written_by_interruptible_code() -> None:
    """Python lets other threads run between its own steps, and so only while a function written in Python runs."""
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    body = LARGE_BODIES["sources"].encode()
    sys.setprofile(count)
    try:
        answer = json_object(body)
        read = steps
        encoded(dict(answer))
    finally:
        sys.setprofile(None)
    assert read > 10_000 and steps - read > 10_000
