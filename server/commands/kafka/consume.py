"""`ottla consume`: print the records of a topic, without a group and without a commit."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from ....protocol.schemas.frames import PARTS, Part
from ...client.newest import newest_records, versions_in
from ...client.reading import EARLIEST, LATEST, Isolation
from ...client.values import Offsets, Record
from ...registry.decoding.cluster_schemas import ClusterSchemas
from ..frame.errors import CommandError, wrong_call
from ..frame.options import bootstrap_option, json_option, number
from ..frame.parser import Command, Parser
from ..frame.printing import show_bytes, visible
from ..frame.printing import show_json as show_line_of_json
from ..frame.times import time_ms, time_text
from .asking import ClusterViews, connected, readable_configs
from .record_json import as_json

NOTES = """\
examples:
  ottla consume orders                      all records, then new ones as they arrive, until Ctrl-C
  ottla consume orders --until-end          all records
  ottla consume orders -n 10 --from -10 --partition 0
  ottla consume orders --from end           only new records
  ottla consume orders --until-end --json | jq .value
  ottla consume orders --latest             the newest record of each key, without deleted keys
  ottla consume orders --latest --at 2026-01-31T12:00:00Z --key-prefix customer-7/

formats:
  text        partition:offset, time, key and value; a missing key or value is (null), control characters are escaped
              keys and values that name a schema of the cluster's schema registry are JSON
  value       the value only, unchanged
  key-value   key, --key-separator and value, unchanged
"""

POLL_EVERY_S = 0.1
NULL = "(null)"
_INT64_MAX = (1 << 63) - 1


def run(options: argparse.Namespace) -> None:
    """Print records up to the requested number, or forever."""
    if not options.latest and (options.at is not None or options.key_prefix):
        raise wrong_call("--at and --key-prefix require --latest")
    if options.latest and options.start != "beginning":
        raise wrong_call("--from and --latest cannot be combined")
    start = _start(options.start)
    show = _FORMATS["json" if options.json else options.format]
    separator = options.key_separator.encode()
    with connected(options) as cluster:
        schemas = ClusterSchemas(cluster.kafka)
        found = _newest(cluster, options) if options.latest else _records(cluster, options, start, schemas)
        for record in found if options.limit is None else islice(found, options.limit):
            show(record, separator, schemas)


def _start(text: str) -> int | str:
    """Parse `beginning`, `end`, an offset, or a distance from the end as a negative number."""
    if text in ("beginning", "end"):
        return text
    try:
        offset = int(text)
    except ValueError:
        raise wrong_call(f"--from: expected beginning, end, an offset or -N, found {text!r}") from None
    if abs(offset) > _INT64_MAX:
        raise wrong_call(f"--from: offset too large ({text!r}, limit {_INT64_MAX})")
    return offset


def _wanted(cluster: ClusterViews, options: argparse.Namespace) -> Sequence[int]:
    """Return the partitions to read."""
    partitions = cluster.kafka.topic(options.topic).partitions
    if options.partition is not None and options.partition >= len(partitions):
        raise wrong_call(
            f"--partition: topic {options.topic} has partitions 0 to {len(partitions) - 1}, found {options.partition}"
        )
    return range(len(partitions)) if options.partition is None else (options.partition,)


def _newest(cluster: ClusterViews, options: argparse.Namespace) -> Iterator[Record]:
    """Yield the newest record of each key, partition by partition."""
    wanted = _wanted(cluster, options)
    versions = versions_in(readable_configs(cluster, options.topic))
    ends = cluster.offsets_at(options.topic, LATEST, "read_committed")
    _check_led(options.topic, wanted, ends)
    if options.at is not None and not options.at.isdecimal():
        found = cluster.offsets_at(options.topic, time_ms(options.at))
        ends = {each: end if found[each] < 0 else min(end, found[each]) for each, end in ends.items()}
    elif options.at is not None:
        ends = {each: min(end, int(options.at)) for each, end in ends.items()}
    for each in wanted:
        read = partial(cluster.kafka.scan, options.topic, each, end=ends[each], isolation="read_committed")
        yield from newest_records(read, versions=versions, key_prefix=options.key_prefix.encode())


def _check_led(topic: str, wanted: Sequence[int], ends: Mapping[int, int]) -> None:
    if unled := [f"{topic}-{partition}" for partition in wanted if partition not in ends]:
        raise CommandError(f"{', '.join(unled)}: no leader, so its records are not shown")


def _records(
    cluster: ClusterViews, options: argparse.Namespace, start: int | str, schemas: ClusterSchemas
) -> Iterator[Record]:
    isolation: Isolation = "read_committed" if options.read_committed else "read_uncommitted"
    wanted = _wanted(cluster, options)
    positions: dict[int, int] = {}
    seen: dict[int, int] = {}
    """Last seen end offset of each partition."""
    pause = threading.Event()
    while True:
        ends = cluster.offsets_at(options.topic, LATEST, isolation)
        schemas.expire()
        starts = cluster.offsets_at(options.topic, EARLIEST) if ends.keys() - positions.keys() else {}
        for partition, end in sorted(ends.items()):
            if options.partition not in (None, partition):
                continue
            position = positions.get(partition)
            if position is None:  # a partition that was created since the start is read from its beginning
                position = _first(start, Offsets(starts.get(partition, 0), end)) if partition in wanted else 0
            if end < seen.get(partition, end):
                position = 0  # the topic was deleted and created again
            if position < end:
                yield from cluster.kafka.scan(options.topic, partition, start=position, end=end, isolation=isolation)
            positions[partition], seen[partition] = max(position, end), end
        if options.until_end:
            _check_led(options.topic, wanted, ends)
            return
        pause.wait(POLL_EVERY_S)


def _offset_or_time(text: str) -> str:
    """Check that a text is an offset or a time."""
    if not text.isdecimal():
        time_ms(text)
    elif int(text) > _INT64_MAX:
        raise argparse.ArgumentTypeError(f"offset too large ({text}, limit {_INT64_MAX})")
    return text


def _first(start: int | str, offsets: Offsets) -> int:
    if start == "beginning":
        return offsets.start
    if isinstance(start, str):
        return offsets.end
    return start if start >= 0 else max(offsets.start, offsets.end + start)


def _show_text(record: Record, _separator: bytes, schemas: ClusterSchemas) -> None:
    where = f"{record.partition}:{record.offset}"
    headers = "".join(f"  {visible(name)}={_text(value)}" for name, value in record.headers)
    key, value = _content(record, "key", schemas), _content(record, "value", schemas)
    line = f"{where:<9}  {_time(record.timestamp_ms)}  {key}  {value}{headers}"
    show_bytes(line.encode(errors="backslashreplace") + b"\n")


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "no time"
    return time_text(timestamp_ms, with_ms=True) or str(timestamp_ms)


def _content(record: Record, part: Part, schemas: ClusterSchemas) -> str:
    decoded = schemas.decoded(record, part)
    if decoded is not None and decoded.text is not None:
        return visible(decoded.text)
    text = _text(record.key if part == "key" else record.value)
    return text if decoded is None else f"{text} (schema {decoded.schema}: {visible(str(decoded.reason))})"


def _text(content: bytes | None) -> str:
    return NULL if content is None else visible(content.decode(errors="backslashreplace"))


def _show_value(record: Record, _separator: bytes, _schemas: ClusterSchemas) -> None:
    show_bytes((record.value or b"") + b"\n")


def _show_key_value(record: Record, separator: bytes, _schemas: ClusterSchemas) -> None:
    show_bytes((record.key or b"") + separator + (record.value or b"") + b"\n")


def _show_json(record: Record, _separator: bytes, schemas: ClusterSchemas) -> None:
    decoded = {part: schemas.decoded(record, part) for part in PARTS}
    show_line_of_json(as_json(record, decoded), indent=None)


_FORMATS: dict[str, Callable[[Record, bytes, ClusterSchemas], None]] = {
    "text": _show_text,
    "value": _show_value,
    "key-value": _show_key_value,
    "json": _show_json,
}


def add_options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--partition", type=number(0), metavar="N", help="only this partition")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="OFFSET",
        default="beginning",
        help="where to start: beginning (the default), end, an offset, or -N for the last N offsets of each partition",
    )
    parser.add_argument("-n", "--limit", type=number(1), metavar="N", help="stop after N records")
    parser.add_argument("-e", "--until-end", action="store_true", help="stop at the current end of the log")
    parser.add_argument(
        "--latest",
        action="store_true",
        help="show only the newest committed record of each key of a partition, without deleted keys, then stop",
    )
    parser.add_argument(
        "--at",
        type=_offset_or_time,
        metavar="WHEN",
        help="with --latest: as of an offset (exclusive) or a time, e.g. 1200 or 2026-01-31T12:00:00Z",
    )
    parser.add_argument(
        "--key-prefix", metavar="TEXT", default="", help="with --latest: only keys that begin with this text"
    )
    parser.add_argument("--read-committed", action="store_true", help="skip records of open and aborted transactions")
    parser.add_argument(
        "-f", "--format", choices=("text", "value", "key-value"), default="text", help="output format (default: text)"
    )
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        default="\t",
        help="with --format key-value: separator between key and value (default: a tab)",
    )
    bootstrap_option(parser)
    json_option(parser, "print one JSON object per record, one per line")


COMMAND = Command("consume", "show the records of a topic", run, add_options, NOTES)
