"""Refreshes of a page: only the parts that look different are drawn again."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from ottla.server.control.broker_state import ListenerState, NodeState
from ottla.server.page.rendering import Viewer, changes, render_document, static
from ottla.server.page.section import Page, Row, Section
from ottla.server.page.views.producers import ProducerRow

LOOK = Viewer("the-token", "1.2.3", (("/", "Overview"),))


def node(node_id: int, *, is_alive: bool = True, rack: str | None = None) -> Row:
    listener = ListenerState("PLAINTEXT", "127.0.0.1:1", "127.0.0.1:1")
    return Row(f"node-{node_id}", NodeState(node_id, is_alive, rack, (listener,)))


def page(*rows: Row, refused: str = "no") -> Page:
    return Page("Nodes", "/", (Section("nodes", "nodes", None, rows), Section("refused", "refused", refused)))


def test_the_first_rendering_has_all_sections() -> None:
    lines, _ = changes(page(node(1), node(2)), None)
    assert [json.loads(line)["id"] for line in lines] == ["nodes", "refused"]


CHANGES = {
    "nothing": (page(node(1), node(2)), []),
    "a row": (page(node(1), node(2, is_alive=False)), ["node-2"]),
    "a section": (page(node(1), node(2), refused="yes"), ["refused"]),
    "a row and a section": (page(node(1, rack="r"), node(2), refused="yes"), ["node-1", "refused"]),
    "a row has come": (page(node(1), node(2), node(3)), ["nodes"]),
    "a row has gone": (page(node(1)), ["nodes"]),
    "other rows": (page(node(2), node(1)), ["nodes"]),
    "other sections": (Page("Nodes", "/", (Section("refused", "refused", "no"),)), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_parts_are_sent(name: str) -> None:
    now, ids = CHANGES[name]
    _, drawn = changes(page(node(1), node(2)), None)
    lines, drawn = changes(now, drawn)
    found: list[Any] = [json.loads(line) for line in lines]
    if ids is None:
        assert found == [{"reload": True}]
        assert [json.loads(line)["id"] for line in changes(now, None)[0]] == ["refused"]
        return
    assert [each["id"] for each in found] == ids
    assert all(each["html"].startswith(("<tr id=", "<section id=")) for each in found)
    assert changes(now, drawn)[0] == []
    assert changes(page(node(1), node(2)), drawn)[0] != [] or ids == []


def test_names_are_escaped_text() -> None:
    hostile = "</td><script>alert(1)</script>\"'&"
    html = render_document(page(node(1, rack=hostile), refused=hostile), LOOK)
    assert "<script>alert" not in html and html.count("&lt;script&gt;alert(1)") == 2
    lines, _ = changes(page(node(1, rack=hostile)), None)
    assert all("<script" not in line for line in lines)


def test_the_number_of_shown_and_existing_rows_is_given() -> None:
    rows = tuple(Row(f"producer-{at}", ProducerRow(at, 0, 0, 0, None)) for at in range(2))
    for count, told in ((3, 1), (2, 0)):
        shown = Page("Producers", "/topics", (Section("producers", "producers", count, rows),))
        assert render_document(shown, LOOK).count("Showing 2 of 3") == told


@pytest.mark.parametrize("name", ["", "nothing", ".", "..", "../pages.py", "page.js/", "/etc/passwd", "page.js\0"])
def test_no_other_file_is_static(name: str) -> None:
    assert static(name) is None
    assert static("page.js") is not None


def test_missing_files_are_not_cached() -> None:
    static("page.js")
    tracemalloc.start()
    try:
        for number in range(200):
            static(str(number).zfill(10_000))
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
