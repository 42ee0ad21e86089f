"""The page of a partition: its content, and that each of its buttons works."""

from __future__ import annotations

import html
import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.server.client.kafka import ConfigValue
from ottla.server.http.table import CallTable
from ottla.server.page.views import partition
from support.broker.admin_calls import AdminCalls

NEVER_MS = 10**12
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    """Run a broker that cleans nothing by itself, except logs that are due at the end of a requested pass."""
    with resting() as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[ottla.Broker]:
    """Run a broker like `broker`, to which no other test sends a pass."""
    with resting() as running:
        yield running


def resting() -> ottla.Broker:
    return ottla.Broker(admin="0", overrides={"log.cleaner.backoff.ms": NEVER_MS})


def get(broker: ottla.Broker, target: str) -> tuple[int, str]:
    assert broker.admin is not None
    with closing(http.client.HTTPConnection(broker.admin, timeout=60)) as connection:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.read().decode()


class Form(NamedTuple):
    """A form whose button makes a call."""

    method: str
    path: str
    fields: dict[str, Any]
    says: str


FORM = re.compile(r'<form data-call="(\w+) ([^"]+)".*?>(.*?)</form>', re.DOTALL)
FIELD = re.compile(r'<input type="hidden" name="([^"]+)" data-type="json" value="([^"]*)">')


def forms(page: str) -> list[Form]:
    """Return the forms as the page's script reads them."""
    found = []
    for method, path, inside in FORM.findall(page):
        fields: dict[str, Any] = {}
        for name, value in FIELD.findall(inside):
            whole, _, entry = html.unescape(name).partition("/")
            told = json.loads(html.unescape(value))
            if entry:
                fields.setdefault(whole, {})[entry] = told
            else:
                fields[whole] = told
        (says,) = re.findall(r"<button[^>]*>([^<]*)<", inside)
        found.append(Form(method, html.unescape(path), fields, html.unescape(says)))
    return found


def text(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def filled(broker: ottla.Broker, topic: str, **configs: ConfigValue) -> str:
    """Create a topic with a closed segment's worth of records of few keys; return its page."""
    defaults: dict[str, ConfigValue] = {"cleanup.policy": "compact", "internal.segment.bytes": 4_000}
    broker.create_topic(topic, 1, {**defaults, **configs})
    for _ in range(8):
        broker.produce_all(topic, [(f"k{at % 5}", "v" * 90) for at in range(20)])
    return f"/topics/{topic}/partitions/0"


def test_an_uncompacted_topic_is_compacted_in_two_clicks(broker: ottla.Broker) -> None:
    page = filled(broker, "plain", **{"cleanup.policy": "delete"})
    admin = AdminCalls.of(broker)
    for says in ("Make this topic compacted", "Compact now"):
        status, shown = get(broker, page)
        assert status == 200
        first = forms(shown)[0]
        assert first.says == says
        code, answer = admin.ask(first.method, first.path, first.fields)
        assert code == 200, answer
    _, shown = get(broker, page)
    assert "Nothing is dirty" in text(shown)
    assert "The pass kept 5 of" in text(shown)
    assert len(broker.records("plain")) == 5


REASONS: dict[str, dict[str, ConfigValue]] = {
    "delete": {"cleanup.policy": "delete"},
    "lag": {"min.compaction.lag.ms": DAY_MS},
    "ratio": {"min.cleanable.dirty.ratio": 1},
    "active": {"internal.segment.bytes": 1_000_000},
    "active-and-lag": {"internal.segment.bytes": 1_000_000, "min.compaction.lag.ms": DAY_MS},
    "eligible": {},
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_button_makes_an_accepted_call(own_broker: ottla.Broker, reason: str) -> None:
    page = filled(own_broker, f"why-{reason}", **REASONS[reason])
    _, shown = get(own_broker, page)
    buttons = forms(shown)
    assert buttons
    admin = AdminCalls.of(own_broker)
    for each in buttons:
        assert CallTable().route(each.method, each.path)
        status, answer = admin.ask(each.method, each.path, each.fields)
        assert status == 200, (each, answer)


@pytest.mark.parametrize("reason", ["lag", "ratio", "active"])
def test_each_alternative_remedy_makes_the_log_eligible(own_broker: ottla.Broker, reason: str) -> None:
    count = len(forms(get(own_broker, filled(own_broker, f"count-{reason}", **REASONS[reason]))[1])) - 1
    assert count >= 1
    for at in range(count):
        topic = f"way-{reason}-{at}"
        page = filled(own_broker, topic, **REASONS[reason])
        button = forms(get(own_broker, page)[1])[1 + at]
        status, answer = AdminCalls.of(own_broker).ask(button.method, button.path, button.fields)
        assert status == 200, answer
        (found,) = own_broker.explain(topic).partitions
        assert found.eligible or found.eligible_at_ms is not None, (button, found.sentence)


def test_a_dry_run_is_on_the_page_and_not_in_its_changes(broker: ottla.Broker) -> None:
    page = filled(broker, "tried", **REASONS["ratio"])
    status, shown = get(broker, f"{page}?dry=yes&from=3&to=40")
    assert status == 200
    assert "The pass would keep" in text(shown)
    assert "segments 0" in text(shown)
    assert "Of 37 offsets from 3 to 40" in text(shown)
    with watched(broker, f"{page}?dry=yes") as changes:
        assert [each["id"] for each in next(changes)] == ["log", "why", "last", "survivors"]


def test_survivors_are_measured_again_after_a_pass(broker: ottla.Broker) -> None:
    page = filled(broker, "left", **REASONS["ratio"])
    with watched(broker, f"{page}?from=0&to=1") as changes:
        assert "1 record is left" in text(found_in(next(changes), "survivors"))
        broker.produce("left", key="k", value="v")
        assert "survivors" not in [each["id"] for each in next(changes)]
        broker.compact("left", force=True)
        while not (found := [each for each in next(changes) if each["id"] == "survivors"]):
            pass
        assert "0 records are left" in text(found[0]["html"])


def test_a_watcher_of_another_range_causes_no_new_measurement(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    look = partition._looked

    async def counted(*arguments: Any) -> partition.Looked:
        looks.append(arguments)
        return await look(*arguments)

    monkeypatch.setattr(partition, "_looked", counted)
    page = filled(broker, "ranged")
    with watched(broker, f"{page}?from=0&to=9") as one, watched(broker, f"{page}?from=9&to=20") as other:
        for _ in range(3):
            broker.produce("ranged", key="k", value="v")
            next(one), next(other)
    asked = [(picture.passes, fields["from"]) for _, picture, fields in looks]
    assert {first for _, first in asked} == {"0", "9"}
    assert len(set(asked)) == len(asked), "once after each clean pass, of which there may be one meanwhile"


Changes = list[dict[str, str]]


@contextmanager
def watched(broker: ottla.Broker, page: str) -> Iterator[Iterator[Changes]]:
    """Yield the events of each refresh, as the page's script receives them; refreshes without changes are left out."""
    assert broker.admin is not None
    with closing(http.client.HTTPConnection(broker.admin, timeout=60)) as connection:
        connection.request("GET", f"{page}{'&' if '?' in page else '?'}events")
        with connection.getresponse() as stream:
            yield _events(stream)


def _events(stream: http.client.HTTPResponse) -> Iterator[Changes]:
    found: Changes = []
    while line := stream.readline().decode():
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: ")))
        elif not line.strip() and found:
            yield found
            found = []


def found_in(changes: Changes, section: str) -> str:
    (html,) = [each["html"] for each in changes if each["id"] == section]
    return html


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from=9&to=3", "from_offset: must not be greater than to_offset=3, found 9"),
        ("from=x", "from: expected a whole number, found 'x'"),
        ("from=%3Cscript%3E", "from: expected a whole number, found '<script>'"),
        ("to=99999999999999999999", "to: expected a whole number"),
        ("to=9999999999999999999", "to_offset: expected a number"),
    ],
)
def test_an_invalid_range_is_refused_next_to_its_fields(broker: ottla.Broker, query: str, said: str) -> None:
    broker.topics()
    page = "/topics/ranges/partitions/0"
    if "ranges" not in {topic.name for topic in broker.topics()}:
        filled(broker, "ranges")
    status, shown = get(broker, f"{page}?{query}")
    assert status == 200
    assert said in text(shown)
    assert "<script>" not in shown


def test_a_refused_dry_run_is_reported(broker: ottla.Broker) -> None:
    page = filled(broker, "undried", **{"cleanup.policy": "delete"})
    assert "undried-0 is not compacted" in text(get(broker, f"{page}?dry=yes")[1])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/topics/none/partitions/0", 404), ("/topics/there/partitions/1", 404), ("/topics/there/partitions/x", 422)],
)
def test_missing_topics_and_partitions_are_reported(broker: ottla.Broker, path: str, status: int) -> None:
    if "there" not in {topic.name for topic in broker.topics()}:
        broker.create_topic("there", 1)
    assert get(broker, path)[0] == status


def test_pages_contain_no_inline_style(broker: ottla.Broker) -> None:
    page = filled(broker, "styled")
    for target in (f"{page}?dry=yes", "/topics/styled"):
        _, shown = get(broker, target)
        assert " style=" not in shown
        assert "<style" not in shown
