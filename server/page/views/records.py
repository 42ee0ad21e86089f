"""Records of a partition, one page at a time, and a form to append one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...broker.broker import Broker
from ...control.latest import latest_records
from ...control.partitions import topic_named
from ...control.records import RecordList, read_records
from ...runtime.errors import ControlError
from ..section import EVENTS, Page, Row, Section, number_in, segment

COUNT = 50


@dataclass(frozen=True, slots=True)
class ShownRecords:
    """The range of shown records."""

    topic: str
    partition: int
    partitions: int
    refusal: str | None
    found: RecordList | None
    earlier: int | None
    """First offset of the previous page."""
    is_latest: bool = False
    """Whether only the newest record of each key is shown."""


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return records of the field `partition` of `topic`, from the field `offset` on (default: the newest).

    With the field `latest` these are the newest of each key, without deleted ones, from the log start on.

    They are read only with the whole page.
    """
    topic = topic_named(broker.services.topics, fields["topic"])
    shown = ShownRecords(topic.name, 0, len(topic.partitions), None, None, None)
    rows: tuple[Row, ...] = ()
    if EVENTS not in fields:
        shown = await _read(broker, shown, fields)
        rows = tuple(
            Row(f"record-{each.offset}", (shown.partition, each))
            for each in (shown.found.records if shown.found else ())
        )
    return Page(
        "Records",
        "/topics",
        (
            Section("records", "records", shown, rows, is_still=True),
            Section("produce", "produce", (shown.topic, shown.partitions), is_still=True),
        ),
        trail=(("Topics", "/topics"), (topic.name, f"/topics/{segment(topic.name)}")),
    )


async def _read(broker: Broker, shown: ShownRecords, fields: Mapping[str, str]) -> ShownRecords:
    partition = 0
    try:
        partition = number_in("partition", fields.get("partition", ""), 10) or 0
        offset = number_in("offset", fields.get("offset", ""))
        if fields.get("latest"):
            found = await latest_records(broker, shown.topic, partition, offset=offset or 0, count=COUNT)
            return ShownRecords(shown.topic, partition, shown.partitions, None, found, None, is_latest=True)
        found = await read_records(broker, shown.topic, partition, offset=offset, count=COUNT)
    except ControlError as error:
        return ShownRecords(shown.topic, partition, shown.partitions, str(error), None, None)
    first = found.records[0].offset if found.records else found.next_offset
    earlier = max(found.log_start_offset, first - COUNT) if first > found.log_start_offset else None
    return ShownRecords(shown.topic, partition, shown.partitions, None, found, earlier)
