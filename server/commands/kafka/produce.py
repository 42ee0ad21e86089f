"""`ottla produce`: append records from arguments or from lines of standard input."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...client.values import NewRecord, Record
from ..frame.errors import WRONG_CALL, CommandError, wrong_call
from ..frame.options import bootstrap_option, json_option, name_and_value, number
from ..frame.parser import Command, Parser
from ..frame.printing import show, show_json
from ..frame.terminal import Progress
from .asking import connected
from .record_json import from_json

NOTES = """\
examples:
  ottla produce orders hello world                            two records without a key
  ottla produce orders paid --key 17 --header source=shop
  ottla produce orders --key 17 --null                        a tombstone
  printf '1:new\\n1:paid\\n' | ottla produce orders --key-separator :
  ottla consume orders --until-end --json | ottla produce copy --json-lines

Without VALUE, each line of standard input is a record, and is sent as soon as it is read. The command stops at the first line
that is invalid or that the broker rejects; the lines before it are written.
"""

READ_BYTES = 256 << 10
LINE_BYTES_MAX = 64 << 20
CHUNK_RECORDS_MAX = 50_000
_STANDARD_INPUT = 0
_INT64_MAX = (1 << 63) - 1
_INT32_MAX = (1 << 31) - 1


@dataclass(slots=True)
class WrittenRecords:
    """Records written to one partition."""

    records: int
    first_offset: int
    last_offset: int


def run(options: argparse.Namespace) -> None:
    """Produce until the input ends."""
    given = list(_from_arguments(options)) if options.values or options.null else None
    written: dict[int, WrittenRecords] = {}
    with connected(options) as cluster, Progress() as progress:
        if given is None:
            _check_options_of_lines(options)
        try:
            if given is not None:
                _note(written, cluster.kafka.produce_all(options.topic, given))
            else:
                for chunk in _chunks(_from_lines(options)):
                    _note(written, cluster.kafka.produce_all(options.topic, chunk))
                    progress.say(f"{_count(written)} records written")
        except CommandError as error:
            if error.exit_code != WRONG_CALL:  # standard input cannot be read
                raise
            raise wrong_call(f"{error}; the {_count(written)} records before it are written") from error
    if options.json:
        show_json(
            [
                {
                    "topic": options.topic,
                    "partition": partition,
                    "records": found.records,
                    "first_offset": found.first_offset,
                    "last_offset": found.last_offset,
                }
                for partition, found in sorted(written.items())
            ]
        )
        return
    for partition, found in sorted(written.items()):
        where = f"offset {found.first_offset}"
        if found.records > 1:
            where = f"offsets {found.first_offset} to {found.last_offset}"
        show(f"{options.topic}-{partition}: {found.records} record{'s'[: found.records != 1]}, {where}")


def _note(written: dict[int, WrittenRecords], records: Iterable[Record]) -> None:
    for record in records:
        found = written.setdefault(record.partition, WrittenRecords(0, record.offset, record.offset))
        found.records += 1
        found.last_offset = record.offset


def _count(written: dict[int, WrittenRecords]) -> int:
    return sum(found.records for found in written.values())


def _from_arguments(options: argparse.Namespace) -> Iterator[NewRecord]:
    if options.key_separator is not None or options.json_lines:
        raise wrong_call("--key-separator and --json-lines apply to lines of standard input; not allowed with VALUE")
    if options.null and options.values:
        raise wrong_call(f"--null and VALUE cannot be combined: a tombstone has no value, found {options.values[0]!r}")
    for value in [None] if options.null else options.values:
        yield _record(options, options.key, value)


def _record(options: argparse.Namespace, key: str | bytes | None, value: str | bytes | None) -> NewRecord:
    return NewRecord(value, key, options.header, options.timestamp, options.partition)


def _check_options_of_lines(options: argparse.Namespace) -> None:
    if options.json_lines and (options.key_separator is not None or options.key is not None or options.header):
        raise wrong_call(
            "--json-lines cannot be combined with --key, --key-separator or --header: each line sets its own"
        )
    if options.key_separator == "":
        raise wrong_call("--key-separator is empty")
    if options.key_separator is not None and options.key is not None:
        raise wrong_call("--key and --key-separator cannot be combined")


def _from_lines(options: argparse.Namespace) -> Iterator[NewRecord | None]:
    """Yield one record for each line; None when all input that is available now was read."""
    separator = None if options.key_separator is None else options.key_separator.encode()
    for place, line in enumerate(_lines(), start=1):
        if line is None:
            yield None
            continue
        try:
            yield _json_record(options, line) if options.json_lines else _split(options, line, separator)
        except CommandError as error:
            raise wrong_call(f"line {place}: {error}") from None


def _json_record(options: argparse.Namespace, line: bytes) -> NewRecord:
    try:
        return from_json(line.decode(), options.partition)
    except UnicodeDecodeError as error:
        raise wrong_call(f"invalid UTF-8 at byte {error.start}") from None


def _split(options: argparse.Namespace, line: bytes, separator: bytes | None) -> NewRecord:
    key: str | bytes | None = options.key
    value: bytes | None = line
    if separator is not None:
        found, there, value = line.partition(separator)
        if not there:
            raise wrong_call(f"expected KEY{separator.decode()}VALUE, found {line[:60].decode(errors='replace')!r}")
        key = found
    return _record(options, key, None if options.empty_is_null and not value else value)


def _lines() -> Iterator[bytes | None]:
    """Yield lines of standard input without their ends; None after the data of one read."""
    if sys.stdin is None:
        return
    pending = bytearray()
    while True:
        try:
            data = os.read(_STANDARD_INPUT, READ_BYTES)
        except OSError as error:
            raise CommandError(f"cannot read standard input: {error.strerror}") from error
        if not data:
            break
        pending += data
        if b"\n" in data:
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            yield from lines
            yield None
        elif len(pending) > LINE_BYTES_MAX:
            raise wrong_call(f"line too long (limit {LINE_BYTES_MAX} bytes)")
    if pending:
        yield bytes(pending)


def _chunks(records: Iterable[NewRecord | None]) -> Iterator[list[NewRecord]]:
    """Yield the records to send together: those of one read. If a line is invalid, the records before it are sent first."""
    chunk: list[NewRecord] = []
    try:
        for record in records:
            if record is not None:
                chunk.append(record)
            if chunk and (record is None or len(chunk) == CHUNK_RECORDS_MAX):
                yield chunk
                chunk = []
    except CommandError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "topic", metavar="TOPIC", help="topic to write to; created if missing and auto.create.topics.enable is set"
    )
    parser.add_argument(
        "values", metavar="VALUE", nargs="*", help="record value; repeatable (default: lines of standard input)"
    )
    parser.add_argument("--key", help="key of all records")
    parser.add_argument("--null", action="store_true", help="write one tombstone: a record without a value")
    parser.add_argument("--key-separator", metavar="TEXT", help="separator between key and value of a line")
    parser.add_argument("--empty-is-null", action="store_true", help="write a tombstone for an empty line or value")
    parser.add_argument(
        "--json-lines", action="store_true", help="read lines as JSON objects, in the format of `ottla consume --json`"
    )
    parser.add_argument(
        "--header",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="header of all records; repeatable",
    )
    parser.add_argument(
        "--partition",
        type=number(0, _INT32_MAX),
        metavar="N",
        help="partition to write to (default: chosen by the key)",
    )
    parser.add_argument(
        "--timestamp",
        type=number(0, _INT64_MAX),
        metavar="MS",
        help="record timestamp in milliseconds since 1970 (default: now)",
    )
    bootstrap_option(parser)
    json_option(parser, "print the partitions and offsets of the records as JSON")


COMMAND = Command("produce", "write records to a topic", run, add_options, NOTES)
