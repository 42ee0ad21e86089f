"""What a partition remembers of its producers: by which sequence it tells a batch that is sent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from ...broker.broker import Broker
from ...control.partitions import logs_of
from ..section import ROWS_MAX, Page, Row, Section, number_in, segment


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """One producer id."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_since_offset: int | None
    """Where its open transaction begins in this partition."""


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """The producers of the partition `partition` of `topic`."""
    topic, index = fields["topic"], number_in("partition", fields["partition"], 10) or 0
    (log,) = logs_of(broker, topic, [index])
    producers = log.producers
    rows = tuple(
        Row(
            f"producer-{each.producer_id}",
            ProducerRow(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_txn_first_offset,
            ),
        )
        for each in islice(producers, ROWS_MAX)
    )
    return Page(
        "Producers",
        "/topics",
        (Section("producers", "producers", len(producers), rows),),
        trail=(
            ("Topics", "/topics"),
            (topic, f"/topics/{segment(topic)}"),
            (f"{topic}-{index}", f"/topics/{segment(topic)}/partitions/{index}"),
        ),
    )
