"""The check that `test_every_public_name` is complete."""

from __future__ import annotations

import re
from pathlib import Path

import ottla
from ottla.server import pytest_plugin

USED = (Path(__file__).parent / "test_every_public_name.py").read_text()


def test_every_name_of_the_package_and_of_a_broker_is_used() -> None:
    names = {f"ottla.{name}" for name in ottla.__all__}
    names |= {f".{name}" for name in dir(ottla.Broker) if not name.startswith("_")}
    assert {name for name in names if not re.search(rf"{re.escape(name)}\b", USED)} == set()


def test_every_fixture_that_needs_no_broker_elsewhere_is_used() -> None:
    fixtures = {name for name in vars(pytest_plugin) if name.startswith("kafka_")}
    assert {name for name in fixtures - {"kafka_external"} if name not in USED} == set()
