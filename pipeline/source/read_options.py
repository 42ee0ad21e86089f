"""Options of the format "ottla", in one table with their names and parsers.

Names and meanings are those of Spark's Kafka connector if it has the option; others are specific to reading files. Unknown
names are rejected, so that nothing is silently ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from ...protocol.schemas.frames import Part
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from ..objects.addresses import FsOptions, flag, parse_fs_options
from ..registry import RegistryAddress, registry_address

EARLIEST, LATEST = -2, -1
"""Start and end of a log, as numbers instead of an offset: Kafka's own."""

MAX_PARTITION_BYTES_DEFAULT = 128 << 20
"""Default, equal to that of Spark's `spark.sql.files.maxPartitionBytes`."""

Offsets = int | Mapping[TopicPartition, int]
"""EARLIEST or LATEST for all partitions, or for each partition an offset or one of the two."""


def _offsets(text: str) -> Offsets:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    found = _numbers(text)
    if any(offset < EARLIEST for offset in found.values()):
        raise ValueError("an offset below -2")
    return found


def _numbers(text: str) -> Mapping[TopicPartition, int]:
    return by_partition(json.loads(text))


def by_partition(numbers: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the number of each partition from the JSON form {"orders": {"0": 4711}}."""
    return {
        TopicPartition(topic, int(partition)): int(number)
        for topic, partitions in numbers.items()
        for partition, number in partitions.items()
    }


def _positive(text: str) -> int:
    if (number := int(text)) <= 0:
        raise ValueError("not above 0")
    return number


def _one_of(*names: str) -> Callable[[str], str]:
    return lambda text: {name.lower(): name for name in names}[text.lower()]


def _registry(text: str) -> RegistryAddress:
    found = registry_address(text)
    found.opened()
    return found


def _parts(text: str) -> tuple[Part, ...]:
    found: dict[str, Part] = {"key": "key", "value": "value"}
    return tuple(found[name.strip()] for name in text.lower().split(","))


class ReadOption(NamedTuple):
    """One option of the format."""

    field: str
    """Name of the field of `ReadOptions`."""
    parse: Callable[[str], Any]
    form: str
    """Description of valid values, for error messages."""
    default: str
    means: str
    of: str = ""
    """`batch` or `stream`, if it is only for these."""


_FLAG = "true or false"
_PARTITION_TIMES = '{"topic": {"0": Unix milliseconds, …}}'
_TIME = "Unix milliseconds"

OPTIONS: Mapping[str, ReadOption] = {
    "path": ReadOption("path", str, "a data directory, or one partition's directory", "", "argument of `load`: one path, several with commas between them, or the address of a copy (`s3://…`)"),
    "topic": ReadOption("topics", lambda text: frozenset(text.split(",")), "names separated by commas", "all", "topics to read"),
    "partition": ReadOption("partitions", lambda text: frozenset(map(int, text.split(","))), "numbers separated by commas", "all", "partitions of each topic to read"),
    "latest": ReadOption("latest", flag, _FLAG, "false", "only the newest value of each key, as in `pipeline.latest`: committed data without deleted keys", "batch"),
    "startingOffsets": ReadOption("starting_offsets", _offsets, 'earliest, latest, or {"topic": {"0": offset, …}}', "earliest; for a stream latest", "start of the read (inclusive); -2 and -1 are earliest and latest"),
    "endingOffsets": ReadOption("ending_offsets", _offsets, 'latest, or {"topic": {"0": offset, …}}', "latest", "end of the read (exclusive)", "batch"),
    "startingTimestamp": ReadOption("starting_timestamp_ms", int, _TIME, "", "start at the first record that is not earlier; takes precedence over offsets"),
    "endingTimestamp": ReadOption("ending_timestamp_ms", int, _TIME, "", "end before the first record that is not earlier", "batch"),
    "startingOffsetsByTimestamp": ReadOption("starting_timestamps_ms", _numbers, _PARTITION_TIMES, "", "the same, for each partition; startingTimestamp takes precedence"),
    "endingOffsetsByTimestamp": ReadOption("ending_timestamps_ms", _numbers, _PARTITION_TIMES, "", "the same, for each partition", "batch"),
    "startingOffsetsByTimestampStrategy": ReadOption("starting_strategy", _one_of("error", "latest"), "error or latest", "error", "action for a starting time that no record reaches"),
    "registry": ReadOption("registry", _registry, "http://HOST:PORT, or a folder with ID.avsc", "", "schema registry: add `valueDecoded`, JSON by the schema that the bytes name, and `notDecoded`, the reason why not"),
    "decode": ReadOption("decoded_parts", _parts, "value, key, or key,value", "value", "what the registry's schemas decode; with key also `keyDecoded`"),
    "includeHeaders": ReadOption("include_headers", flag, _FLAG, "false", "add the column `headers`"),
    "includeBatchColumns": ReadOption("include_batch_columns", flag, _FLAG, "false", "add columns with fields of a record's batch"),
    "isolationLevel": ReadOption("isolation_level", _one_of("read_uncommitted", "read_committed"), "read_uncommitted or read_committed", "read_uncommitted", "read_committed leaves out aborted and undecided transactions"),
    "mode": ReadOption("mode", _one_of("FAILFAST", "DROPMALFORMED"), "FAILFAST or DROPMALFORMED", "FAILFAST", "DROPMALFORMED skips damaged batches, which `pipeline.malformed` shows"),
    "failOnDataLoss": ReadOption("fail_on_data_loss", flag, _FLAG, "true", "reject offsets that the log does not have any more, or not yet; else read those that it has"),
    "pushdown": ReadOption("pushdown", flag, _FLAG, "false", "apply Spark's filters, in sessions with `spark.sql.python.filterPushdown.enabled`", "batch"),
    "maxPartitionBytes": ReadOption("max_partition_bytes", _positive, "a number of bytes", str(MAX_PARTITION_BYTES_DEFAULT), "approximate size of a task's part of a log file"),
    "maxOffsetsPerTrigger": ReadOption("max_offsets_per_trigger", _positive, "a number of offsets", "all", "size of a micro-batch, over all partitions", "stream"),
}  # fmt: skip

OPTION_NAMES = tuple(OPTIONS)
FS_PREFIX = "fs."
"""Prefix of options of stores (`objects.addresses.SCHEMES`): fs.s3.region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Parsed options of a reader."""

    path: str
    fs: FsOptions = field(default_factory=FsOptions)
    """Options of the store, if the path is an address."""
    topics: frozenset[str] | None = None
    """Topics to read; None is all."""
    partitions: frozenset[int] | None = None
    starting_offsets: Offsets | None = None
    """Starting offsets; None is the earliest for a batch, the latest for a stream."""
    ending_offsets: Offsets | None = None
    starting_timestamp_ms: int | None = None
    """Begin at the first record that is not earlier; takes precedence over offsets. `starting_strategy` applies if no record
    is."""
    ending_timestamp_ms: int | None = None
    """End before the first record that is not earlier; at the log's end if no record is."""
    starting_timestamps_ms: Mapping[TopicPartition, int] | None = None
    ending_timestamps_ms: Mapping[TopicPartition, int] | None = None
    """Starting and ending times of each partition; the times for all partitions take precedence."""
    starting_strategy: str = "error"
    """Raise an error for a timestamp that no record reaches, or begin at the end (`latest`)."""
    latest: bool = False
    """Only the newest record of each key that has a value, from the committed data; for batch reads only."""
    registry: RegistryAddress | None = None
    decoded_parts: tuple[Part, ...] = ("value",)
    include_headers: bool = False
    include_batch_columns: bool = False
    isolation_level: str = "read_uncommitted"
    mode: str = "FAILFAST"
    fail_on_data_loss: bool = True
    """Raise an error for offsets that the log does not have any more, or not yet; else read those that it has."""
    pushdown: bool = False
    """Apply Spark's filters, which it offers only if `spark.sql.python.filterPushdown.enabled` is set."""
    max_partition_bytes: int = MAX_PARTITION_BYTES_DEFAULT
    """Approximate size of a task's part of a log file, as a task reads whole batches, between two index entries."""
    max_offsets_per_trigger: int | None = None
    """Number of offsets in a micro-batch, over all partitions. A compacted log has more offsets than records."""

    @property
    def is_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def drops_malformed(self) -> bool:
        return self.mode == "DROPMALFORMED"


def parse_options(texts: Mapping[str, str]) -> ReadOptions:
    """Parse options from their texts. Names are in any case, as Spark passes them.

    Raises:
        UsageError: A name is unknown, a value is invalid, or the path is missing.
    """
    known = {name.lower(): name for name in OPTION_NAMES}
    values: dict[str, Any] = {}
    of_stores = {name[len(FS_PREFIX) :]: text for name, text in texts.items() if name.lower().startswith(FS_PREFIX)}
    if of_stores:
        values["fs"] = parse_fs_options(of_stores)
    for given, text in texts.items():
        if given.lower().startswith(FS_PREFIX):
            continue
        name = known.get(given.lower())
        if name is None:
            # `subscribe` is the connector's name for it.
            near = ["topic"] if given.lower() == "subscribe" else get_close_matches(given.lower(), known, 1)
            hint = f", did you mean {known[near[0]]}?" if near else ""
            raise UsageError(
                f"unknown option {given}{hint}; options are {', '.join(OPTION_NAMES)}, and {FS_PREFIX}… of stores"
            )
        option = OPTIONS[name]
        try:
            values[option.field] = option.parse(text)
        except (ValueError, KeyError, AttributeError, TypeError):
            raise UsageError(f"option {name}: expected {option.form}, found {text!r}") from None
    if "path" not in values:
        raise UsageError('option path is missing: .load("<data directory>")')
    if "decoded_parts" in values and "registry" not in values:
        raise UsageError("option decode needs option registry")
    if values.get("ending_offsets") == EARLIEST:
        raise UsageError("option endingOffsets cannot be earliest")
    return ReadOptions(**values)
