"""A key's life: each record of it, what took its place, and what the next pass makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....storage.cleaning.key_history import KeyRecord
from ...broker.broker import Broker
from ...control.errors import ControlError, Kind
from ...control.topics import topic_named
from ...control.why.explain_key import KeyExplanation, explain_key
from ..fields import number
from ..formats import segment
from ..section import EVENTS, ROWS_MAX, Page, Row, Section

ENCODINGS = ("text", "hex")


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for; no key before anybody has asked."""

    topic: str
    key: str | None
    encoding: str
    partition: str
    refusal: str | None
    found: KeyExplanation | None


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """The life of the key `key` (as the field `encoding` has it) in `topic`. A search reads the whole log: with the page alone."""
    topic = topic_named(broker, fields["topic"]).name
    question = Question(
        topic, fields.get("key"), fields.get("encoding", "text"), fields.get("partition", ""), None, None
    )
    rows: tuple[Row, ...] = ()
    if question.key is not None and EVENTS not in fields:
        question = await _answered(broker, question)
        if question.found is not None:
            history, sentences = question.found.history, question.found.sentences[1:]
            rows = tuple(
                Row(f"record-{record.offset}", _Lived(record, sentence.partition("; ")[2]))
                for record, sentence in zip(history.records, sentences, strict=True)
            )
    return Page(
        "A key's life",
        "/topics",
        (Section("life", "life", question, rows, is_still=True),),
        trail=(("Topics", "/topics"), (topic, f"/topics/{segment(topic)}")),
    )


@dataclass(frozen=True, slots=True)
class _Lived:
    record: KeyRecord
    sentence: str
    """What there is to say of it, beside what it is."""


async def _answered(broker: Broker, question: Question) -> Question:
    key, encoding = question.key or "", question.encoding
    refusal, found = None, None
    try:
        if encoding not in ENCODINGS:
            raise ControlError(Kind.INVALID, f"encoding: expected text or hex, found {encoding!r:.40}")
        try:
            wanted = bytes.fromhex(key) if encoding == "hex" else key.encode("utf-8", "surrogateescape")
        except ValueError:
            raise ControlError(Kind.INVALID, f"key: expected pairs of hexadecimal digits, found {key!r:.60}") from None
        found = await explain_key(
            broker,
            question.topic,
            wanted,
            partition=number("partition", question.partition, 10),
            records_max=ROWS_MAX,
        )
    except ControlError as error:
        refusal = str(error)
    return Question(question.topic, question.key, encoding, question.partition, refusal, found)
