"""Answers of Ottla that differ from Apache Kafka's, with reasons."""

from __future__ import annotations

_OVERFLOW = (
    "its session would last for more than 292 years, at which Apache Kafka ends the connection without an answer"
)
_LIST = "Apache Kafka fails at a number among texts and ends the connection without an answer; it is told here"
_SCHEME = "Apache Kafka fails at making its message and ends the connection without an answer; it is told here"

NAMED: dict[str, str] = {
    "file: an end far away": _OVERFLOW,
    "file: scopes in a list, one a number": _LIST,
    "file, first message: another scheme": _SCHEME,
    "unsigned, first message: another scheme": _SCHEME,
}
"""The reason, by conversation."""
