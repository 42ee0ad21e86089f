"""Which topics Metadata withholds from clients that have outlived a run."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest

from ottla.server.network.dispatcher import RequestingClient
from ottla.server.services.former_run import WITHHELD_S, FormerRun


class Connected(NamedTuple):
    client_host: str
    software: tuple[str, str] | None


OLD = Connected("10.0.0.1", ("library", "1.0"))


def withholds(run: FormerRun, name: str, client: Connected, now_s: float) -> bool:
    return run.withholds(name, cast(RequestingClient, client), now_s)


@pytest.fixture
def run() -> FormerRun:
    run = FormerRun(["orders"], [cast(RequestingClient, OLD)])
    run.begin(100.0)
    return run


@pytest.mark.parametrize(
    ("name", "client", "now_s", "is_withheld"),
    [
        ("orders", OLD, 100.0, True),
        ("orders", OLD, 99.9 + WITHHELD_S, True),
        ("orders", OLD, 100.0 + WITHHELD_S, False),
        ("new", OLD, 100.0, False),
        ("orders", OLD._replace(client_host="10.0.0.2"), 100.0, False),
        ("orders", OLD._replace(software=("library", "2.0")), 100.0, False),
        ("orders", OLD._replace(software=None), 100.0, False),
    ],
)
def test_only_old_topics_are_withheld_from_clients_like_the_old_ones_for_a_short_time(
    run: FormerRun, name: str, client: Connected, now_s: float, is_withheld: bool
) -> None:
    assert withholds(run, name, client, now_s) is is_withheld


def test_topics_are_withheld_before_the_run_serves() -> None:
    assert withholds(FormerRun(["orders"], [cast(RequestingClient, OLD)]), "orders", OLD, 1e9)


def test_nothing_is_withheld_in_the_first_run() -> None:
    assert not withholds(FormerRun(), "orders", OLD, 0.0)
