"""Pages as a browser requests them."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from html import unescape
from importlib import resources
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from kafka import KafkaProducer

import ottla
from ottla.server.http.table import CALLS, CallTable
from ottla.server.page.pages import NAVIGATION, POLICY, VIEWS, event, pause_s
from support.broker.registry_calls import record_schema


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0", nodes=2) as broker:
        yield broker


def get(broker: ottla.Broker, target: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, str]:
    assert broker.admin is not None
    with closing(http.client.HTTPConnection(broker.admin, timeout=60)) as connection:
        connection.request(method, target, headers=headers)
        response = connection.getresponse()
        return response, response.read().decode()


def test_the_first_page_describes_the_broker_and_loads_nothing_external(broker: ottla.Broker) -> None:
    response, html = get(broker, "/")
    assert response.status == 200
    assert response.getheader("content-type") == "text/html; charset=utf-8"
    assert response.getheader("content-security-policy") == "; ".join(POLICY)
    assert broker.bootstrap in html
    assert not re.search(r"(src|href)=\"(?!/)", html.replace('href="#main"', ""))
    assert " style=" not in html and "<style" not in html and " on" not in re.sub(r">[^<]*<", "><", html)
    for loaded in re.findall(r'(?:src|href)="(/static/[^"]+)"', html):
        assert get(broker, loaded)[0].status == 200


def test_head_has_no_body_and_never_watches(broker: ottla.Broker) -> None:
    response, body = get(broker, "/?events", "HEAD")
    assert (response.status, body) == (200, "")
    assert response.getheader("content-type") == "text/html; charset=utf-8"


def test_other_paths_are_unchanged(broker: ottla.Broker) -> None:
    assert get(broker, "/nothing")[0].status == 404
    assert get(broker, "/static/nothing")[0].status == 404
    assert get(broker, "/", "POST")[0].status == 404
    assert json.loads(get(broker, "/v1/broker")[1])["nodes"]


def test_a_watcher_receives_everything_and_then_changes(broker: ottla.Broker) -> None:
    assert broker.admin is not None
    with closing(http.client.HTTPConnection(broker.admin, timeout=60)) as connection:
        connection.request("GET", "/?events")
        with connection.getresponse() as stream:
            assert stream.getheader("content-type") == "text/event-stream; charset=utf-8"
            assert ids(stream) == ["facts", "compaction", "logs", "nodes"]
            broker.stop_node(1)
            assert ids(stream) == ["node-1"]
            broker.start_node(1)
            assert ids(stream) == ["node-1"]


def ids(stream: http.client.HTTPResponse) -> list[str]:
    """Return the ids in the next event."""
    found: list[str] = []
    while True:
        line = stream.readline().decode().rstrip("\n")
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: "))["id"])
        elif not line and found:
            return found


def test_every_page_of_the_navigation_exists() -> None:
    assert NAVIGATION and [path for path, _ in NAVIGATION if path not in VIEWS] == []


def test_every_form_makes_an_existing_call() -> None:
    calls = {f"{call.method} {call.path}": call for call in CALLS}
    forms = list(forms_of_templates())
    assert forms
    for template, called, names in forms:
        assert called in calls, f"{template}: {called}"
        known = {field.name for field in fields(calls[called].request)}
        assert {name.partition("/")[0] for name in names} <= known, f"{template}: {called} has {sorted(known)}"
        method, path = called.split(" ")
        assert CallTable().route(method, path.replace("{", "").replace("}", "")).call is calls[called]


def forms_of_templates() -> Iterator[tuple[str, str, list[str]]]:
    """Yield template, call, and names of its fields."""
    root = resources.files("ottla.server.page").joinpath("templates")
    for folder in (root, root.joinpath("sections"), root.joinpath("rows")):
        for template in folder.iterdir():
            if template.name.endswith(".html"):
                text = template.read_text()
                for form in re.findall(r"<form[^>]*data-call=\".*?</form>", text, re.DOTALL):
                    called = re.search(r'data-call="([^"]+)"', form)
                    assert called is not None
                    if "{{" in called[1]:  # of the view: tests/server/page/test_partition_page.py presses each button
                        continue
                    yield template.name, called[1], re.findall(r' name="([^"]+)"', form)


def test_events_are_lines_of_json_for_any_content() -> None:
    assert event("changes", []) == b":\n\n"
    assert (
        event("changes", [json.dumps("a\nb\r\u2028"), "1"]) == b'event: changes\ndata: "a\\nb\\r\\u2028"\ndata: 1\n\n'
    )


def test_topics_and_their_options_are_shown(broker: ottla.Broker) -> None:
    broker.create_topic("a.b", partitions=2, configs={"retention.ms": "123456"})
    _, topics = get(broker, "/topics")
    assert 'href="/topics/a.b"' in topics and "__consumer_offsets" not in topics
    _, topic = get(broker, "/topics/a.b")
    assert 'id="partition-1"' in topic
    _, options = get(broker, "/topics/a.b/options")
    assert 'value="123456"' in options and "Reset retention.ms" in options and "must be at least" in options
    broker.delete_topic("a.b")
    response, refused = get(broker, "/topics/a.c")
    assert response.status == 404 and "topic &#39;a.c&#39; not found" in refused


@pytest.mark.parametrize(
    "target", ["/topics/%00", "/topics/%ff", "/topics/" + "x" * 5000, "/topics/..%2f/options", "/topics//options"]
)
def test_hostile_names_are_refused(broker: ottla.Broker, target: str) -> None:
    response, body = get(broker, target)
    assert response.status in (400, 404) and len(body) < 5000


HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def busy() -> Iterator[ottla.Broker]:
    """Run a broker with one of everything, under the worst names that clients may choose."""
    with ottla.Broker(
        admin="0",
        overrides={"allow.everyone.if.no.acl.found": True},
        acls=["User:alice allow READ,WRITE topic:orders*", "User:alice allow READ group:*"],
        quotas={f"user={HOSTILE[2:]}": {"producer_byte_rate": 1000.0}},
    ) as broker:
        broker.create_topic("t", partitions=2)
        broker.fault(api="Produce", client=HOSTILE, error="NOT_LEADER_OR_FOLLOWER", count=3)
        yield broker


@pytest.mark.parametrize("target", [path for path in VIEWS if "{" not in path])
def test_every_page_is_complete_and_escapes_names_from_clients(busy: ottla.Broker, target: str) -> None:
    response, html = get(busy, target)
    assert response.status == 200
    assert html.count("<section") == html.count("</section>") > 0
    assert "<script>alert" not in html
    assert sorted(found := re.findall(r' id="([^"]+)"', html)) == sorted(set(found))
    headings = [int(level) for level in re.findall(r"<h(\d)", html)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(headings))


def test_the_page_answers_authorization_questions(busy: ottla.Broker) -> None:
    assert '<strong class="good">Yes</strong>' in get(busy, "/acls?who=User:alice&what=READ&on=topic:orders1")[1]
    assert '<strong class="bad">No</strong>' in get(busy, "/acls?who=User:bob&what=READ&on=topic:orders1")[1]
    assert 'class="refusal"' in get(busy, "/acls?who=bob&what=READ&on=topic:orders1")[1]
    assert ": invalid principal" in get(busy, "/acls?principal=bob")[1]


def test_a_frozen_clock_is_shown_as_frozen(busy: ottla.Broker) -> None:
    busy.clock.freeze()
    busy.clock.advance(days=1)
    assert "<strong>frozen" in get(busy, "/faults")[1]
    busy.clock.unfreeze()
    assert "<strong>frozen" not in get(busy, "/faults")[1]


def test_the_history_of_a_key_is_shown_record_by_record(broker: ottla.Broker) -> None:
    broker.create_topic("k", partitions=2, configs={"cleanup.policy": "compact"})
    for value in ("1", "22", None):
        broker.produce("k", value, key="a<b>")
    _, html = get(broker, "/topics/k/keys?key=a%3Cb%3E")
    assert html.count('<tr id="record-') == 3 and "tombstone" in html
    assert 'superseded by <a href="#record-1">offset 1</a>' in html
    assert get(broker, "/topics/k/keys?key=613c623e&encoding=hex")[1].count('<tr id="record-') == 3
    assert get(broker, "/topics/k/keys?key=YTxiPg%3D%3D&encoding=base64")[1].count('<tr id="record-') == 3
    nothing = get(broker, "/topics/k/keys?key=other")[1]
    assert nothing.count("<tr id=") == 0 and "No records of this key found" in nothing
    for query, sentence in {
        "key=xyz&encoding=hex": "expected pairs of hexadecimal digits",
        "key=xyz&encoding=base64": "expected base64",
        "key=a&encoding=base9": "expected text, hex, base64",
        "key=a&partition=9": "partition",
        "key=a&partition=%C2%B2": "expected a whole number",
    }.items():
        response, refused = get(broker, f"/topics/k/keys?{query}")
        assert response.status == 200 and sentence in refused and 'role="alert"' in refused
    broker.delete_topic("k")


def test_only_the_value_of_a_superseded_record_is_struck_out(broker: ottla.Broker) -> None:
    broker.create_topic("k", configs={"cleanup.policy": "compact"})
    for value in ("1", "22"):
        broker.produce("k", value, key="a")
    broker.roll("k")
    _, html = get(broker, "/topics/k/keys?key=a")
    assert (
        re.findall(r"<s>(.*?)</s>", html) == ["value, 1 B"]
        and '<strong class="bad">removed</strong>: superseded' in html
    )
    broker.delete_topic("k")


def test_a_record_links_to_the_history_of_any_key_in_any_partition(broker: ottla.Broker) -> None:
    broker.create_topic("k", partitions=3)
    keys = [b"\xff\x00", "ä&b=c?".encode(), b""]
    broker.produce_all("k", [ottla.NewRecord(key, "v", partition=at) for at, key in enumerate(keys)])
    for at in range(3):
        _, html = get(broker, f"/topics/k/records?partition={at}")
        (link,) = re.findall(r'href="(keys\?[^"]+)"', html)
        assert get(broker, f"/topics/k/{unescape(link)}")[1].count('<tr id="record-0"') == 1
    broker.delete_topic("k")


def test_the_newest_record_of_each_key_is_shown(broker: ottla.Broker) -> None:
    broker.create_topic("n")
    broker.produce_all("n", [(f"k{number % 60}", f"v{number}") for number in range(120)])
    broker.produce("n", None, key="k60")
    _, first = get(broker, "/topics/n/records?latest=1")
    assert first.count('<tr id="record-') == 50 and 'id="record-60"' in first and 'id="record-59"' not in first
    assert 'href="?partition=0&amp;offset=110&amp;latest=1">Later<' in first and "checked" in first
    _, rest = get(broker, "/topics/n/records?offset=110&latest=1")
    assert rest.count('<tr id="record-') == 10 and ">Later<" not in rest
    broker.delete_topic("n")


def test_records_are_paged_and_escaped(broker: ottla.Broker) -> None:
    broker.create_topic("r")
    for number in range(60):
        broker.produce("r", f"<i>{number}</i>" + "x" * 200, key=f"k{number}")
    _, newest = get(broker, "/topics/r/records")
    assert newest.count('<tr id="record-') == 50 and "&lt;i&gt;59&lt;/i&gt;" in newest and "<i>59" not in newest
    assert 'href="?partition=0&amp;offset=0"' in newest and ">Later<" not in newest
    _, oldest = get(broker, "/topics/r/records?offset=0")
    assert ">Later<" in oldest and ">Earlier<" not in oldest
    assert "expected a whole number" in get(broker, "/topics/r/records?offset=x")[1]
    broker.delete_topic("r")


def test_schemas_are_shown_compared_and_tried() -> None:
    one = record_schema("x int", "gone int 0")
    two = record_schema("x int", 'new string "<b>"')
    with ottla.Broker(admin="0", seed={"schemas": {"s/<i>": [one, two]}}) as broker:
        _, subjects = get(broker, "/schemas")
        assert 'href="/schemas/s%2F%3Ci%3E"' in subjects and "1, 2" in subjects and "BACKWARD" in subjects
        target = "/schemas/s%2F%3Ci%3E"
        _, html = get(broker, target)
        assert "Version 2" in html and re.findall(r"<ins[^>]*>\+ +(.*?)</ins>", html)[0].endswith("&#34;new&#34;,")
        assert "&lt;b&gt;" in html and "<b>" not in html and len(re.findall(r"<del", html)) >= 1
        assert "<ins" not in get(broker, f"{target}?version=1&compared=1")[1]
        assert "Version 1" in get(broker, f"{target}?version=1")[1]
        assert "Compatible</strong>" in get(broker, f"{target}?kind=AVRO&schema={quote(one)}")[1]
        bad = get(broker, f"{target}?kind=AVRO&schema={quote(record_schema('z int'))}")[1]
        assert "Not compatible</strong>" in bad and "READER_FIELD_MISSING_DEFAULT_VALUE" in bad
        assert 'class="refusal">Invalid schema' in get(broker, f"{target}?kind=AVRO&schema=%7B")[1]
        for missing, status in (("/schemas/none", 404), (f"{target}?version=9", 404), (f"{target}?version=x", 422)):
            assert get(broker, missing)[0].status == status


def test_producers_of_a_partition_are_shown(broker: ottla.Broker) -> None:
    broker.create_topic("p")
    with KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
        producer.send("p", b"v").get()
    _, html = get(broker, "/topics/p/partitions/0/producers")
    assert html.count('<tr id="producer-') == 1 and "No producers." not in html
    assert get(broker, "/topics/p/partitions/x/producers")[0].status == 422
    assert get(broker, "/topics/p/partitions/1/producers")[0].status == 404
    broker.delete_topic("p")


def test_a_slow_page_is_refreshed_less_often() -> None:
    assert [pause_s(took_s) for took_s in (0.0, 0.015, 0.03, 0.12, 60.0)] == [1.0, 1.0, 2.0, 8.0, 15.0]


def test_a_directory_with_an_invalid_utf_8_name_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    with ottla.Broker(folder, admin="0") as broker:
        response, html = get(broker, "/")
        assert response.status == 200 and "d\\udcff" in html
        response, metrics = get(broker, "/metrics")
        assert response.status == 200 and "d?" in metrics
