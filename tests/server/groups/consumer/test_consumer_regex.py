"""Regular expressions in subscriptions; test_consumer_groups_topics tests their use by groups."""

import subprocess
import sys

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.assigning import regexes
from ottla.server.groups.assigning.regexes import REFRESH_AT_MOST_EVERY_MS, check_regex, resolve
from ottla.server.runtime.expressions import Expression
from support.groups.consumer_groups import ConsumerGroups
from support.noted import each_case

TOPICS = ("orders", "orders.eu", "payments", "__consumer_offsets")


@pytest.mark.parametrize(
    ("regex", "matched"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders.eu"}),
        ("order", set()),
        (".*s", {"orders", "payments", "__consumer_offsets"}),
        ("(?i)ORDERS", {"orders"}),
        ("", set()),
        ("(?:a*)*b", set()),
    ],
)
def test_a_topic_matches_by_its_complete_name(regex: str, matched: set[str]) -> None:
    assert to_the_end(resolve([regex], TOPICS)) == {regex: matched}


@each_case(
    "regex, reason",
    [
        ("(t.*c", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a**", "invalid nested repetition operator"),
        ("*a", "missing argument to repetition operator"),
        ("\\", "trailing backslash at end of expression"),
        ("(?<n", "invalid named capture"),
        ("a{1001}", "invalid repeat count"),
        ("\\8", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("[z-a]", "invalid character class range"),
        ("a{999}" * 585, "pattern too large - compile failed"),
        ("\ud800", "not valid Unicode"),
        # Limits of Ottla: patterns that would take longer than a request may.
        ("a" * 4_097, "too long (4097 characters, limit 4096)"),
        (r"\pL" * 26 + r"[^\P{Greek}]" * 25, "too many Unicode classes (51, limit 50)"),
    ],
)
def test_an_invalid_expression_is_refused_with_apache_kafkas_message(regex: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_regex(regex)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."


@pytest.mark.parametrize("regex", ["|".join(f"topic-{number}" for number in range(320)), r"(.{0,30}a){30}", r"\pL" * 5])
def test_an_expression_within_the_limits_matches_any_name(regex: str) -> None:
    assert to_the_end(resolve([regex], ["x" * 249, "é" * 124])) == {regex: set()}


def test_a_large_expression_is_not_matched_with_an_expensive_text() -> None:
    expression = Expression(r"(.{0,30}a){30}")
    with pytest.raises(KafkaError, match="too complex for a text of 32000 characters"):
        expression.matches("x" * 32_000)
    assert Expression("x*").matches("x" * 32_000)


def test_an_invalid_expression_matches_nothing() -> None:
    assert to_the_end(resolve(["(", "orders"], TOPICS)) == {"(": set(), "orders": {"orders"}}


def test_the_library_is_loaded_with_the_first_expression() -> None:
    loaded = "import sys; import ottla.server.broker.broker, ottla.server.groups.assigning.regexes; print('re2' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


def test_expressions_that_match_too_many_topics_are_not_tried_at_each_heartbeat(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(regexes, "GROUP_NAMES_MAX", 3)
    groups = ConsumerGroups(orders_a=1, orders_b=1)
    groups.enter("a", subscribed_topic_regex="orders.*")
    groups.enter("b", subscribed_topic_regex="orders_.")

    def beats() -> int:
        caplog.clear()
        groups.advance(REFRESH_AT_MOST_EVERY_MS + 1)
        for member in "aabb":
            groups.beat(member, groups.table().members[member].epoch)
        return len(
            [one for one in caplog.messages if "cannot resolve regular expressions" in one and "(4 together" in one]
        )

    assert [beats(), beats()] == [1, 1]
    assert groups.table().regexes.keys() == {"orders.*"}
    groups.topics.delete("orders_b")
    assert beats() == 0
    assert {name: set(one.topics) for name, one in groups.table().regexes.items()} == {
        "orders.*": {"orders_a"},
        "orders_.": {"orders_a"},
    }
