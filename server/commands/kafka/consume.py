"""`ottla consume`: the records of a topic, without a group and without a commit."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator
from itertools import islice

from ....protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...client.nodes import Nodes, check
from ...client.reading import LATEST, LEVELS, Isolation
from ...client.values import Offsets, Record
from ..frame.command import Command
from ..frame.errors import WrongCallError
from ..frame.options import bootstrap_option, json_option, number
from ..frame.parser import Parser
from ..frame.printing import show_bytes, visible
from ..frame.printing import show_json as show_line_of_json
from ..frame.times import time_text
from .asking import Cluster, connected
from .record_json import as_json

NOTES = """\
examples:
  ottla consume orders                      all there is, then what comes, until Ctrl-C
  ottla consume orders --until-end          all there is
  ottla consume orders -n 10 --from -10 --partition 0
  ottla consume orders --from end           only what comes
  ottla consume orders --until-end --json | jq .value

formats:
  text        partition:offset, time, key and value; (null) is none, control characters are shown
  value       the value alone, as it is
  key-value   key, --key-separator and value, as they are
"""

POLL_EVERY_S = 0.1
TIMEOUT_MS = 10_000
NULL = "(null)"
_INT64_MAX = (1 << 63) - 1


def run(options: argparse.Namespace) -> None:
    """Print records until there are enough, or for ever."""
    start = _start(options.start)
    show = _FORMATS["json" if options.json else options.format]
    separator = options.key_separator.encode()
    with connected(options) as cluster:
        found = _records(cluster, options, start)
        for record in found if options.limit is None else islice(found, options.limit):
            show(record, separator)


def _start(text: str) -> int | str:
    """`beginning`, `end`, an offset, or how far before the end as a negative number."""
    if text in ("beginning", "end"):
        return text
    try:
        offset = int(text)
    except ValueError:
        raise WrongCallError(f"--from: expected beginning, end, an offset or -N, found {text!r}") from None
    if abs(offset) > _INT64_MAX:
        raise WrongCallError(f"--from: expected at most {_INT64_MAX}, found {text!r}")
    return offset


def _records(cluster: Cluster, options: argparse.Namespace, start: int | str) -> Iterator[Record]:
    isolation: Isolation = "read_committed" if options.read_committed else "read_uncommitted"
    positions = {
        partition: _first(start, offsets)
        for partition, offsets in cluster.kafka.offsets(options.topic, isolation).items()
    }
    if options.partition is not None and options.partition not in positions:
        raise WrongCallError(
            f"--partition: topic {options.topic} has partitions 0 to {len(positions) - 1}, found {options.partition}"
        )
    pause = threading.Event()
    while True:
        for partition, end in sorted(_ends(cluster.nodes, options.topic, isolation).items()):
            if options.partition not in (None, partition):
                continue
            position = positions.get(partition, 0)  # a partition that was made meanwhile is read from its beginning
            if position < end:
                yield from cluster.kafka.scan(options.topic, partition, start=position, end=end, isolation=isolation)
            # The end lies before the position where the topic was made anew.
            positions[partition] = end if position <= end or options.until_end else 0
        if options.until_end:
            return
        pause.wait(POLL_EVERY_S)


def _ends(nodes: Nodes, topic: str, isolation: Isolation) -> dict[int, int]:
    """Where each partition ends now, of those that somebody leads: one request a leader, as it is asked again and again."""

    def ask() -> dict[int, int]:
        led: dict[int, list[ListOffsetsPartition]] = {}
        for partition in nodes.topic(topic).partitions:
            if partition.leader >= 0:
                wanted = ListOffsetsPartition(partition_index=partition.index, timestamp=LATEST)
                led.setdefault(partition.leader, []).append(wanted)
        ends = {}
        for leader, partitions in led.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=LEVELS[isolation],
                topics=(ListOffsetsTopic(name=topic, partitions=tuple(partitions)),),
                timeout_ms=TIMEOUT_MS,
            )
            for row in nodes.ask(request, leader).topics[0].partitions:
                check(row.error_code, f"topic {topic!r}, partition {row.partition_index}")
                ends[row.partition_index] = row.offset
        return ends

    return nodes.retrying(ask)


def _first(start: int | str, offsets: Offsets) -> int:
    if start == "beginning":
        return offsets.start
    if isinstance(start, str):
        return offsets.end
    return start if start >= 0 else max(offsets.start, offsets.end + start)


def _show_text(record: Record, _separator: bytes) -> None:
    where = f"{record.partition}:{record.offset}"
    headers = "".join(f"  {name}={_text(value)}" for name, value in record.headers)
    line = f"{where:<9}  {_time(record.timestamp_ms)}  {_text(record.key)}  {_text(record.value)}{headers}"
    show_bytes(line.encode(errors="backslashreplace") + b"\n")


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "no time"
    return time_text(timestamp_ms, with_ms=True) or str(timestamp_ms)


def _text(content: bytes | None) -> str:
    return NULL if content is None else visible(content.decode(errors="backslashreplace"))


def _show_value(record: Record, _separator: bytes) -> None:
    show_bytes((record.value or b"") + b"\n")


def _show_key_value(record: Record, separator: bytes) -> None:
    show_bytes((record.key or b"") + separator + (record.value or b"") + b"\n")


def _show_json(record: Record, _separator: bytes) -> None:
    show_line_of_json(as_json(record), indent=None)


_FORMATS: dict[str, Callable[[Record, bytes], None]] = {
    "text": _show_text,
    "value": _show_value,
    "key-value": _show_key_value,
    "json": _show_json,
}


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--partition", type=number(0), metavar="N", help="only this one")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="OFFSET",
        default="beginning",
        help="beginning (the default), end, an offset, or -N for the last N offsets of each partition",
    )
    parser.add_argument("-n", "--limit", type=number(1), metavar="N", help="end after N records")
    parser.add_argument("-e", "--until-end", action="store_true", help="end at the end that the log has now")
    parser.add_argument("--read-committed", action="store_true", help="nothing of open and aborted transactions")
    parser.add_argument("-f", "--format", choices=("text", "value", "key-value"), default="text", help="default: text")
    parser.add_argument("--key-separator", metavar="TEXT", default="\t", help="of --format key-value (default: a tab)")
    bootstrap_option(parser)
    json_option(parser, "an object for each record, on a line of its own")


COMMAND = Command("consume", "show the records of a topic", run, add_options, NOTES)
