"""A key's life: each record of it, what took its place, and what the next pass makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....storage.cleaning.key_history import KeyRecord
from ...broker.broker import Broker
from ...control.explain import KeyExplanation, explain_key, outlook
from ...control.operation import Encoding, decoded
from ...control.partitions import topic_named
from ...runtime.errors import ControlError, Kind
from ..section import EVENTS, ROWS_MAX, Page, Row, Section, number_in, segment

ENCODINGS = tuple(each.value for each in Encoding)


@dataclass(frozen=True, slots=True)
class KeyQuestion:
    """What is searched for; no key before anybody has asked."""

    topic: str
    partitions: int
    key: str | None
    encoding: str
    partition: str
    refusal: str | None
    found: KeyExplanation | None


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """The life of the key `key` (as the field `encoding` has it) in `topic`. A search reads the whole log: with the page alone."""
    topic = topic_named(broker.services.topics, fields["topic"])
    question = KeyQuestion(
        topic.name,
        len(topic.partitions),
        fields.get("key"),
        fields.get("encoding", Encoding.TEXT.value),
        fields.get("partition", ""),
        None,
        None,
    )
    rows: tuple[Row, ...] = ()
    if question.key is not None and EVENTS not in fields:
        question = await _answered(broker, question, question.key)
        if question.found is not None:
            history = question.found.history
            rows = tuple(Row(f"record-{each.offset}", _Lived(each, outlook(each, history))) for each in history.records)
    return Page(
        "Key history",
        "/topics",
        (Section("life", "life", question, rows, is_still=True),),
        trail=(("Topics", "/topics"), (topic.name, f"/topics/{segment(topic.name)}")),
    )


@dataclass(frozen=True, slots=True)
class _Lived:
    record: KeyRecord
    outlook: str
    """What becomes of it."""


async def _answered(broker: Broker, question: KeyQuestion, key: str) -> KeyQuestion:
    try:
        if question.encoding not in ENCODINGS:
            raise ControlError(
                Kind.INVALID, f"encoding: expected {', '.join(ENCODINGS)}, found {question.encoding!r:.40}"
            )
        found = await explain_key(
            broker,
            question.topic,
            decoded("key", key, Encoding(question.encoding)),
            partition=number_in("partition", question.partition, 10),
            records_max=ROWS_MAX,
        )
    except ControlError as error:
        return replace(question, refusal=str(error))
    return replace(question, found=found)
