"""Comparison of answers with the recorded ones, and the list of intended differences."""

from __future__ import annotations

from typing import Any

from support.authorization.answers import as_text
from support.authorization.questions import BROKER
from support.authorization.recording import Answers, Asked

_REFUSAL = "_AUTHORIZATION_FAILED"


def between(expected: Answers, found: Answers) -> list[str]:
    """Return a line for each difference that is not named."""
    return [
        f"{asked.question} v{asked.version} as {asked.user}: expected {as_text(expected[asked])}, got {as_text(answer)}"
        for asked, answer in found.items()
        if _comparable(asked, expected[asked]) != _comparable(asked, answer)
    ]


NAMED: dict[str, str] = {
    "Fetch as a broker": "there are no followers: whoever fetches is a consumer",
}
"""Question -> why the answers differ after the check of rights; both brokers let the same users through."""
LET_THROUGH = "let through"


def _comparable(asked: Asked, answer: Any) -> Any:
    return _without_words(_let_through(answer) if asked.question in NAMED else answer)


def _let_through(value: Any) -> Any:
    """Return the answer with only its refusals, and the resources that they concern."""
    if isinstance(value, list):
        return [_let_through(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: LET_THROUGH if name.endswith("error_code") and not one.endswith(_REFUSAL) else _let_through(one)
        for name, one in value.items()
        if (name, value.get("resource_type")) != ("configs", BROKER) and (name, one) != ("topic_id", "?")
    }


def _without_words(value: Any) -> Any:
    """Return the answer without the messages of errors that rights do not cause: Ottla has its own messages for those."""
    if isinstance(value, list):
        return [_without_words(one) for one in value]
    if not isinstance(value, dict):
        return value
    is_refusal = str(value.get("error_code", "")).endswith(_REFUSAL)
    kept = {name: _without_words(one) for name, one in value.items() if is_refusal or name != "error_message"}
    return {name: sorted(one, key=as_text) if isinstance(one, list) else one for name, one in kept.items()}
