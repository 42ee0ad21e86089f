"""Regular expressions that untrusted text meets cannot backtrack: each pattern for `re` is checked, or listed here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from support.backtracking import Use, doubts, uses
from support.noted import each_case

GIVES_BACK = "one loop, which gives back each character once: what follows it fails at its first character"
FILE_NAME = "a file's name, of 255 bytes at most; one loop, which gives back each character once"
OF_OPERATOR = "the text of whoever runs the command; its time grows with the square of it at most"
FROM_JAVA = "what Java prints on this machine: short lines"
FROM_SPARK = "what our own Spark wrote; the text before the loop holds a character that the loop does not take"
NOT_PROVED = {
    ("storage/disk/paths.py", "([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})"): FILE_NAME,
    ("storage/disk/paths.py", "([a-zA-Z0-9._-]*)-(0|[1-9]"): FILE_NAME,
    ("pipeline/objects/tiered.py", "(.+)-([0-9]+)-({_UUID})"): FILE_NAME,
    ("pipeline/objects/tiered.py", "(.+)-({_UUID})"): FILE_NAME,
    ("pipeline/spark/on_executors.py", ".+-[0-9]+"): FILE_NAME,
    ("server/commands/frame/environment.py", "(\\\\w+_)?(SERVICE_HOST"): OF_OPERATOR,
    ("server/commands/frame/environment.py", "(?<!\\\\\\\\)"): "begins at the first backslash of a row alone",
    ("server/commands/frame/options.py", "([0-9]+(?:"): OF_OPERATOR,
    (
        "server/config/sasl/jaas.py",
        "_TOKEN",
    ): "takes every character, so nothing is read twice but a quote left open, which ends it",
    ("server/handlers/api_versions.py", "[a-zA-Z0-9](?:"): GIVES_BACK,
    ("server/http/json_values.py", "matches.pattern"): "those of `Matches`, which are read as well",
    ("server/http/openapi.py", "\\\\{"): "our own paths",
    ("server/quotas/entities.py", "_PART"): "a lazy loop, each of whose steps looks ahead by 12 characters at most",
    ("server/quotas/entities.py", "_AMBIGUOUS"): GIVES_BACK,
    (
        "server/security/sasl/passwords.py",
        "(?P<bare>c=",
    ): "at most 8 192 characters; parts hold no comma, so each gives back itself alone",
    ("server/security/tls/settings.py", "pattern"): "those of _STEPS, without a loop",
    ("server/security/tls/mapping_rules.py", "\\\\\\\\(.)"): OF_OPERATOR,
    ("server/security/tls/mapping_rules.py", "\\\\\\\\Q"): OF_OPERATOR,
    ("server/security/tls/mapping_rules.py", "\\\\$"): OF_OPERATOR,
    (
        "server/security/tls/stores.py",
        "-----BEGIN",
    ): "what is between BEGIN and END holds no `-----`, so no beginning reads past the next",
    ("pipeline/apply/packages.py", "{name}"): OF_OPERATOR,
    ("pipeline/apply/sql_tables.py", "[^"): OF_OPERATOR,
    ("pipeline/run/java.py", "^java"): FROM_JAVA,
    ("pipeline/run/jvm.py", "Host"): FROM_JAVA,
    ("pipeline/run/jvm.py", "\\\\s*$"): FROM_JAVA,
    ("pipeline/spark/failures.py", "ottla"): FROM_SPARK,
    ("pipeline/spark/failures.py", "[A-Za-z]"): GIVES_BACK,
    ("pipeline/spark/failures.py", "Cannot run"): FROM_SPARK,
    ("pipeline/spark/on_executors.py", "JAVA_VERSION"): FROM_SPARK,
}
"""Files, and the beginning of the pattern in their source."""


@cache
def all_uses() -> list[Use]:
    """Return all uses; not at collection, which each process of a run does, since it reads all sources."""
    return list(uses())


def reasons(use: Use) -> Iterator[str]:
    shown = re.sub(r"^[\w.]+\((?:r?b?f?['\"]+)?", "", use.call, count=1)
    return (why for (file, begin), why in NOT_PROVED.items() if file == use.file and shown.startswith(begin))


def test_each_pattern_reads_its_text_a_few_times_at_most() -> None:
    for use in all_uses():
        found = ["it is made while the broker runs"] if use.pattern is None else doubts(use.pattern, use.flags, use.how)
        listed = list(reasons(use))
        if found:
            assert listed, (
                f"{use.name}: {'; '.join(found)}. Write it so that no loop has two ways for a character, or use RE2"
            )
        else:
            assert not listed, f"{use.name} cannot backtrack: it needs no reason"


def test_each_reason_has_its_pattern() -> None:
    for file, begin in NOT_PROVED:
        assert any(
            use.file == file and re.sub(r"^[\w.]+\((?:r?b?f?['\"]+)?", "", use.call, count=1).startswith(begin)
            for use in all_uses()
        ), f"{file} has no pattern that begins with {begin}"


@each_case(
    "pattern, how",
    [
        ("(a+)+b", "fullmatch"),
        ("(ab|[a-c])*d", "fullmatch"),
        ("(a*)*", "fullmatch"),
        ("a*a*b", "fullmatch"),
        (".*,.*;", "fullmatch"),
        ("^CN=(.*?),OU=(.*?),O=(.*?)$", "fullmatch"),
        (r"\s*(\s|x)*y", "match"),
        (r"(?i)[a-k]*K*x", "match"),
        (r"\d+[0-9]+", "match"),
        (r"(\w+)=", "search"),
        (r"[^)]*\)", "sub"),
        (r"(a)\1", "match"),
    ],
)
def test_a_pattern_that_can_backtrack_is_found(pattern: str, how: str) -> None:
    assert doubts(pattern, how=how)


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        ("[0-9]{20}-[0-9]{10}", "fullmatch"),
        (r"(?:\\.|[^\\/])*/", "match"),
        (r"-?[0-9]{1,20}(\.[0-9]{1,20})?", "fullmatch"),
        ("(a|ab)*c", "fullmatch"),
        ("MISSING_A|MISSING_B", "search"),
        (r"n=(?:[a-z]|=(?:2C|3D))+,", "fullmatch"),
        (r"^java@(\d+)", "search"),
        (r"secret[\w-]{0,40}=[^&\s]+", "sub"),
        (r'(["*?\\])', "sub"),
    ],
)
def test_a_pattern_that_cannot_backtrack_is_accepted(pattern: str, how: str) -> None:
    assert not doubts(pattern, how=how)
