"""Responses of the registry that are kept while its schemas stay as they are."""

from __future__ import annotations

import itertools
import json
import random

import pytest

import ottla
from ottla.server.http import registry_listener
from ottla.server.http.registry_listener import KEPT_BYTES_MAX, KEPT_MAX, KeptReplies, _reply
from ottla.server.http.replies import Reply
from support.broker.registry_calls import RegistryCalls, record_schema

LOG, OTHER_LOG = object(), object()


def test_a_response_is_kept_until_the_position_changes() -> None:
    kept, reply = KeptReplies(), Reply(200, b"x")
    kept.keep((LOG, 3), ("a",), reply)
    assert kept.find((LOG, 3), ("a",)) is reply
    for position, key in (((LOG, 3), ("b",)), ((LOG, 4), ("a",)), ((OTHER_LOG, 3), ("a",)), (None, ("a",))):
        assert kept.find(position, key) is None
    kept.keep((LOG, 4), ("b",), reply)
    assert kept.find((LOG, 4), ("a",)) is None and kept.find((LOG, 4), ("b",)) is reply
    kept.keep(None, ("c",), reply)
    assert kept.find(None, ("c",)) is None


def test_responses_are_kept_within_limits() -> None:
    kept, reply = KeptReplies(), Reply(200, b"x")
    for number in range(3 * KEPT_MAX):
        kept.keep((LOG, 3), (number,), reply)
    assert 0 < sum(kept.find((LOG, 3), (number,)) is not None for number in range(3 * KEPT_MAX)) <= KEPT_MAX
    for key, body in ((("a",), bytes(KEPT_BYTES_MAX)), (("a" * KEPT_BYTES_MAX,), b"x")):
        kept.keep((LOG, 3), key, Reply(200, body))
        assert kept.find((LOG, 3), key) is None


@pytest.mark.parametrize("seed", range(3))
def test_kept_responses_are_those_that_would_be_made(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send random requests to a registry that keeps responses, and to one that keeps none."""
    rng = random.Random(seed)
    schemas = [record_schema(f"{name} int 0", name=record) for name in "xy" for record in "RS"]
    made = [
        (method, path.format(s=subject), sent)
        for subject, schema in itertools.product(("a", ":.c:b"), schemas)
        for method, path, sent in (
            ("POST", "/subjects/{s}/versions", {"schema": schema}),
            ("POST", "/subjects/{s}", {"schema": schema}),
            ("POST", "/compatibility/subjects/{s}/versions", {"schema": schema}),
            ("GET", "/subjects/{s}/versions/latest", None),
            ("GET", "/schemas/ids/1", None),
            ("DELETE", "/subjects/{s}", None),
            ("DELETE", "/subjects/{s}?permanent=true", None),
            ("PUT", "/config/{s}", {"compatibility": "NONE"}),
            ("PUT", "/mode/{s}", {"mode": "READONLY"}),
            ("DELETE", "/mode/{s}", None),
            ("DELETE", "/mode", None),
            ("DELETE", "/config/{s}", None),
        )
    ]
    requests = [each for each in rng.choices(made, k=60) for _ in range(rng.choice((1, 2)))]

    def answers() -> list[object]:
        with ottla.Broker(schema_registry=True) as broker:
            registry = RegistryCalls.of(broker)
            return [(request, registry.ask(*request)) for request in requests]

    with_kept = answers()
    monkeypatch.setattr(registry_listener, "KEPT_BYTES_MAX", 0)
    assert answers() == with_kept


async def test_a_long_list_is_freed_element_by_element_after_it_was_written() -> None:
    found = [{"id": number} for number in range(1_000)]
    reply = await _reply(found)
    assert [each["id"] for each in json.loads(reply.body)] == list(range(1_000))
    assert found == []
