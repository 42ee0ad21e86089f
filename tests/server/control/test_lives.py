"""Snapshots over HTTP: copied and restored on the broker's machine, and refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from support.broker.admin import topic_names
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0") as running:
        yield running


@pytest.fixture
def admin(broker: ottla.Broker) -> AdminCalls:
    return AdminCalls.of(broker)


def names(broker: ottla.Broker) -> set[str]:
    with RawClient(*address(broker)) as client:
        return topic_names(client)


def test_a_copy_is_restored(broker: ottla.Broker, admin: AdminCalls, tmp_path: Path) -> None:
    with RawClient(*address(broker)) as client:
        create_topic(client, "t")
    broker.advance_clock(5_000)
    path = str(tmp_path / "snapshot")
    status, made = admin.ask("POST", "/v1/snapshot", {"path": path})
    assert (status, made["path"], made["clock_ahead_ms"]) == (200, path, 5_000)
    assert made["files"] > 5 and made["size_bytes"] > 100
    admin.ask("POST", "/v1/reset")
    assert names(broker) == set()
    assert admin.ask("POST", "/v1/restore", {"path": path}) == (200, made)
    assert names(broker) == {"t"}


@pytest.mark.parametrize(
    ("verb", "path", "status", "says"),
    [
        ("snapshot", "relative", 422, "path: expected an absolute path on the broker's machine, found 'relative'"),
        ("restore", "relative", 422, "path: expected an absolute path on the broker's machine, found 'relative'"),
        ("restore", "/nowhere/at/all", 409, "/nowhere/at/all is not a snapshot: directory not found"),
        ("restore", "/dev", 409, "/dev is not a snapshot: ottla-snapshot.json not found"),
        ("snapshot", "/dev", 409, "/dev already exists, and is not an empty directory"),
        ("snapshot", "/" + "x" * 300, 409, "File name too long"),
        ("snapshot", "/dev/null/s", 409, "cannot write a snapshot to /dev/null/s: /dev/null is not a directory"),
        ("restore", "/" + "x" * 300, 409, "File name too long"),
    ],
)
def test_an_unusable_path_is_refused(admin: AdminCalls, verb: str, path: str, status: int, says: str) -> None:
    found, answer = admin.ask("POST", f"/v1/{verb}", {"path": path})
    assert found == status
    assert says in answer["error"] and "\n" not in answer["error"]
