"""Files with the answers of Apache Kafka 4.4.0: every answer once, with the versions and users that received it.

`python -m compat.apache_kafka.authorization --record` writes the answers to all questions; `--share` those about share groups.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from support.authorization.answers import as_text
from support.authorization.rights import USERS

FILE = Path(__file__).parent / "apache_kafka.json"
"""Answers with `share.version` 0."""
SHARE_FILE = Path(__file__).parent / "apache_kafka_share_groups.json"
"""Answers with `share.version` 1."""
EVERYBODY_ELSE = "*"
"""The name for all users whom no other answer of the version names."""


class Asked(NamedTuple):
    question: str
    version: int
    user: str


Answers: TypeAlias = Mapping[Asked, Any]


def written(answers: Answers) -> str:
    """Return the text of the file: questions in their order, a row a line."""
    by_question: dict[str, dict[int, dict[str, list[str]]]] = {}
    for (question, version, user), answer in answers.items():
        versions = by_question.setdefault(question, {})
        versions.setdefault(version, {}).setdefault(as_text(answer), []).append(user)
    lines = [f"{json.dumps(question)}: [\n{_rows(versions)}\n]" for question, versions in by_question.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(versions: Mapping[int, Mapping[str, list[str]]]) -> str:
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for version, answers in versions.items():
        most = max(answers, key=lambda text: len(answers[text]))
        for text, users in answers.items():
            rows[EVERYBODY_ELSE if text == most else " ".join(sorted(users)), text].append(version)
    return ",\n".join(
        f"[{json.dumps(users)}, {json.dumps(_ranges(found))}, {text}]" for (users, text), found in sorted(rows.items())
    )


def _ranges(versions: Iterable[int]) -> str:
    told = sorted(versions)
    ends = [one for one, after in pairwise([*told, 1 << 30]) if after != one + 1]
    starts = [one for before, one in pairwise([-2, *told]) if one != before + 1]
    return " ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


def read(text: str) -> dict[Asked, Any]:
    answers: dict[Asked, Any] = {}
    for question, rows in json.loads(text).items():
        others: list[tuple[int, Any]] = []
        for users, ranges, answer in rows:
            for version in _versions(ranges):
                if users == EVERYBODY_ELSE:
                    others.append((version, answer))
                    continue
                for user in users.split():
                    answers[Asked(question, version, user)] = answer
        for version, answer in others:
            for user in USERS:
                answers.setdefault(Asked(question, version, user), answer)
    return answers


def _versions(ranges: str) -> Iterable[int]:
    for one in ranges.split():
        low, _, high = one.partition("-")
        yield from range(int(low), int(high or low) + 1)
