"""The progress of topics' compaction, on the first page and on a topic's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import ottla
from ottla.server.page.views.compaction import TOPICS_MAX
from support.broker.admin_calls import AdminCalls

NEVER_MS = 10**12


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    """Run a broker that cleans nothing by itself."""
    with ottla.Broker(admin="0", overrides={"log.cleaner.backoff.ms": NEVER_MS}) as running:
        yield running


def shown(broker: ottla.Broker, path: str) -> str:
    """Return the page, without insignificant white space."""
    status, html = AdminCalls.of(broker).ask("GET", path)
    assert status == 200
    return re.sub(r"\s+", " ", re.sub(r"(\s*<[^>]*>\s*)+", " | ", html))


def test_a_topic_may_have_any_name_and_ids_stay_unique(broker: ottla.Broker) -> None:
    for topic in ("name", "a-0", "a", "state", "main", "logs-name"):
        broker.create_topic(topic, 2, {"cleanup.policy": "compact"})
        for path in ("/", "/topics", f"/topics/{topic}", f"/topics/{topic}/options", f"/topics/{topic}/partitions/1"):
            _, html = AdminCalls.of(broker).ask("GET", path)
            ids = re.findall(r'\sid="([^"]*)"', html)
            assert len(ids) > 3 and sorted(ids) == sorted(set(ids)), path


def test_the_uncleaned_part_of_a_topic_is_shown(broker: ottla.Broker) -> None:
    broker.create_topic("empty", 1, {"cleanup.policy": "compact"})
    broker.create_topic("orders", 2, {"cleanup.policy": "compact"})
    broker.create_topic("visits", 1, {"cleanup.policy": "delete"})
    for partition in (0, 1):
        broker.produce_all("orders", [ottla.NewRecord(f"k{at % 3}", "v", partition=partition) for at in range(30)])
    broker.compact("orders", [0], force=True)
    page = shown(broker, "/")
    assert "| empty | nothing, the log is empty | Compact | empty |" in page
    assert "| orders | 30 of 60 offsets | Compact | orders |" in page
    standings, logs = page.split("| Logs |")
    assert "visits" not in standings and "visits-0" in logs and "__consumer_offsets" not in page
    broker.compact("orders", force=True)
    assert "| orders | nothing, all clean | Compact" in shown(broker, "/")


def test_a_topic_has_the_required_button(broker: ottla.Broker) -> None:
    broker.create_topic("orders", 1, {"cleanup.policy": "compact,delete"})
    broker.create_topic("visits", 1, {"cleanup.policy": "delete"})
    assert "| Compact now |" in shown(broker, "/topics/orders")
    page = shown(broker, "/topics/visits")
    assert "| Make this topic compacted |" in page and "Compact now" not in page


def test_topics_with_most_dirty_data_are_shown_by_name(broker: ottla.Broker) -> None:
    names = [f"t{number:03d}" for number in range(TOPICS_MAX + 3)]
    for name in names:
        broker.create_topic(name, 1, {"cleanup.policy": "compact"})
        if name not in ("t001", "t004", "t040"):
            broker.produce(name, key="k", value="v")
    page = shown(broker, "/")
    found = re.findall(r"\| (t\d+) \| 1 of 1 offsets", page)
    assert found == [name for name in names if name not in ("t001", "t004", "t040")]
    assert "3 more topics with less to clean" in page
