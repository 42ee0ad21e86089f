"""Notebook output for a broker, a topic and a dry run: HTML that needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import ottla

ALLOWED = {
    "div",
    "style",
    "svg",
    "defs",
    "pattern",
    "rect",
    "path",
    "circle",
    "line",
    "g",
    "text",
    "title",
    "desc",
    "p",
    "b",
}
ALLOWED |= {"ul", "li", "span", "section"}


class Tags(HTMLParser):
    """All tags, and the attributes that would run or load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.active: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.active += [(name, value) for name, value in attrs if name.startswith("on") or name in ("src", "href")]


def check(html: str) -> None:
    tags = Tags(html)
    assert tags.found <= ALLOWED, tags.found - ALLOWED
    assert tags.active == []
    assert not re.search(r"url\((?!#)", html)
    assert html.count("<div") == html.count("</div>")


def test_a_broker_a_topic_and_a_dry_run_are_drawn() -> None:
    with ottla.Broker(overrides={"log.cleaner.backoff.ms": 10**12}) as broker:
        broker.create_topic("plain", 1, {"cleanup.policy": "delete"})
        broker.create_topic("orders", 2, {"cleanup.policy": "compact"})
        broker.produce_all("orders", [("k", "1"), ("k", "2"), ("l", "1")])
        whole = broker._repr_html_()
        check(whole)
        assert [name for name in ("orders-0", "orders-1", "plain-0") if f"<b>{name}</b>" in whole] == [
            *("orders-0", "orders-1", "plain-0"),
        ]
        assert whole.index("orders-1") < whole.index("plain-0")
        topic = broker.picture("orders")
        check(topic._repr_html_())
        assert [line.split()[0] for line in str(topic).splitlines()] == ["orders-0", "orders-1"]
        check(broker.dry_run("orders", force=True)._repr_html_())
        assert len(broker.picture("orders", 1).partitions) == 1


def test_a_broker_that_does_not_run_is_shown_in_one_line() -> None:
    broker = ottla.Broker()
    assert broker._repr_html_() == "<code>&lt;ottla.Broker new&gt;</code>"
    with broker:
        pass
    assert broker._repr_html_() == "<code>&lt;ottla.Broker stopped&gt;</code>"


def test_hundreds_of_partitions_are_counted() -> None:
    with ottla.Broker() as broker:
        broker.create_topic("many", 200, {"cleanup.policy": "compact"})
        html = broker._repr_html_()
        check(html)
        assert "and 150 more" in html
        assert len(html) < 200_000
