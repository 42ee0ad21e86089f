"""A broker in a thread of the test process, and a client that sends raw requests to it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server.runtime.gc_policy import GcPolicy
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS


@pytest.fixture(autouse=True)
def _first_run() -> Iterator[None]:
    """Forget the brokers of earlier tests: otherwise each restart would collect the garbage of all of them."""
    yield
    GcPolicy.a_run_has_ended = False


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run one node on a free port, with the quick reactions of the `dev` profile; records of 1970 are safe in it."""
    overrides = dict.fromkeys(("log.retention.check.interval.ms", "log.initial.task.delay.ms"), "3600000")
    with ottla.Broker(str(tmp_path / "data"), overrides=FEW_PARTITIONS | overrides, rng=random.Random(1)) as running:
        yield running


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as connected:
        yield connected
