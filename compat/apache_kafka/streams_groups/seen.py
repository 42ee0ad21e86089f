"""Counts the kinds of answers in a run: a kind that is missing was not compared."""

from __future__ import annotations

from collections import Counter

from ottla.server.groups.streams.configured import StatusCode

from .answers import ROLES, Answer, HeartbeatResult
from .steps import Beat, Step


class Seen:
    """Counts answers by what is in them."""

    def __init__(self) -> None:
        self._heard: Counter[str] = Counter()
        self._others: Counter[str] = Counter()

    def add(self, step: Step, answer: Answer) -> None:
        if isinstance(step, Beat) and isinstance(answer, HeartbeatResult):
            self._heard.update(_parts(answer))
        else:
            self._others[type(step).__name__] += 1

    def words(self) -> list[str]:
        return [
            ", ".join(f"{count} {what}" for what, count in table.most_common())
            for table in (self._heard, self._others)
            if table
        ]


def _parts(answer: HeartbeatResult) -> list[str]:
    parts = [answer.code]
    parts += [StatusCode(code).name for code, _ in answer.statuses or ()]
    parts += [f"with {role} tasks" for role in ROLES if getattr(answer, role)]
    parts += ["asks for a description"] if answer.must_describe else []
    if answer.endpoints:
        parts.append("with endpoints")
    return parts
