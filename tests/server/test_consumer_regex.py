"""Regular expressions that consumers subscribe with; what groups do with them is in test_consumer_groups_topics."""

import subprocess
import sys

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.groups.consumer.regexes import check_regex, resolve

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
def test_a_topic_belongs_if_its_whole_name_matches(regex: str, matched: set[str]) -> None:
    assert resolve([regex], TOPICS) == {regex: matched}


@pytest.mark.parametrize(
    ("regex", "reason"),
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
        ("a{999}" * 999, "pattern too large - compile failed"),
        ("\ud800", "not text"),
    ],
)
def test_an_expression_that_is_none_is_refused_in_the_words_of_apache_kafka(regex: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_regex(regex)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."


def test_an_expression_that_is_none_matches_nothing() -> None:
    assert resolve(["(", "orders"], TOPICS) == {"(": set(), "orders": {"orders"}}


def test_the_library_is_loaded_with_the_first_expression_only() -> None:
    loaded = "import sys; import ottla.server.broker, ottla.server.groups.consumer.regexes; print('re2' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
