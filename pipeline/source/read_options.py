"""The options of the format "ottla": one table says which there are and how their texts are understood.

Names and meanings are those of Spark's Kafka connector where it has the same thing; what only a reader of files can
have comes besides. A name that nobody knows is refused, so that nothing is silently ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from ..objects.addresses import FsOptions, flag, parse_fs_options

EARLIEST, LATEST = -2, -1
"""Where a log begins and ends, as numbers in place of an offset: Kafka's own."""

MAX_PARTITION_BYTES_DEFAULT = 128 << 20
"""As Spark's `spark.sql.files.maxPartitionBytes`."""

Offsets = int | Mapping[TopicPartition, int]
"""EARLIEST or LATEST for all partitions, or an offset, or one of the two, for each."""


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
    """What is said in JSON of each partition, as {"orders": {"0": 4711}}."""
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


class ReadOption(NamedTuple):
    """One option."""

    field: str
    """Of `ReadOptions`."""
    parse: Callable[[str], Any]
    form: str
    """What is said to be right where a value is not."""
    default: str
    means: str
    of: str = ""
    """`batch` or `stream`, where it is of these only."""


_FLAG = "true or false"
_PARTITION_TIMES = '{"topic": {"0": Unix milliseconds, …}}'
_TIME = "Unix milliseconds"

OPTIONS: Mapping[str, ReadOption] = {
    "path": ReadOption("path", str, "a data directory, or one partition's directory", "", "what `load` is given: one, several with commas between them, or the address of a copy (`s3://…`)"),
    "topic": ReadOption("topics", lambda text: frozenset(text.split(",")), "names separated by commas", "all", "these topics"),
    "partition": ReadOption("partitions", lambda text: frozenset(map(int, text.split(","))), "numbers separated by commas", "all", "these partitions of each"),
    "latest": ReadOption("latest", flag, _FLAG, "false", "only the newest value of each key, as `pipeline.latest` has it: of what is committed, deleted keys not", "batch"),
    "startingOffsets": ReadOption("starting_offsets", _offsets, 'earliest, latest, or {"topic": {"0": offset, …}}', "earliest; of a stream latest", "where reading begins (inclusive); -2 and -1 are the two words"),
    "endingOffsets": ReadOption("ending_offsets", _offsets, 'latest, or {"topic": {"0": offset, …}}', "latest", "where it ends (exclusive)", "batch"),
    "startingTimestamp": ReadOption("starting_timestamp_ms", int, _TIME, "", "begins with the first record that is not earlier; wins over offsets"),
    "endingTimestamp": ReadOption("ending_timestamp_ms", int, _TIME, "", "ends before the first record that is not earlier", "batch"),
    "startingOffsetsByTimestamp": ReadOption("starting_timestamps_ms", _numbers, _PARTITION_TIMES, "", "the same, for each partition; the one for all wins"),
    "endingOffsetsByTimestamp": ReadOption("ending_timestamps_ms", _numbers, _PARTITION_TIMES, "", "the same, for each partition", "batch"),
    "startingOffsetsByTimestampStrategy": ReadOption("starting_strategy", _one_of("error", "latest"), "error or latest", "error", "what becomes of a start that no record reaches"),
    "includeHeaders": ReadOption("include_headers", flag, _FLAG, "false", "the column `headers`"),
    "includeBatchColumns": ReadOption("include_batch_columns", flag, _FLAG, "false", "what a record's batch says, as columns"),
    "isolationLevel": ReadOption("isolation_level", _one_of("read_uncommitted", "read_committed"), "read_uncommitted or read_committed", "read_uncommitted", "read_committed leaves out what is aborted or not decided"),
    "mode": ReadOption("mode", _one_of("FAILFAST", "DROPMALFORMED"), "FAILFAST or DROPMALFORMED", "FAILFAST", "DROPMALFORMED passes over damaged batches, which `pipeline.malformed` shows"),
    "failOnDataLoss": ReadOption("fail_on_data_loss", flag, _FLAG, "true", "refuse offsets that the log has no more, or not yet; else read what there is"),
    "pushdown": ReadOption("pushdown", flag, _FLAG, "false", "take filters from Spark, in sessions with `spark.sql.python.filterPushdown.enabled`", "batch"),
    "maxPartitionBytes": ReadOption("max_partition_bytes", _positive, "a number of bytes", str(MAX_PARTITION_BYTES_DEFAULT), "of a log file for one task, about"),
    "maxOffsetsPerTrigger": ReadOption("max_offsets_per_trigger", _positive, "a number of offsets", "all there are", "of a micro-batch, over all partitions", "stream"),
}  # fmt: skip

OPTION_NAMES = tuple(OPTIONS)
FS_PREFIX = "fs."
"""Before the names of options of stores (`objects.addresses.SCHEMES`): fs.s3.region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a reader was asked for."""

    path: str
    fs: FsOptions = field(default_factory=FsOptions)
    """Of the store, where the path is an address."""
    topics: frozenset[str] | None = None
    """None for all."""
    partitions: frozenset[int] | None = None
    starting_offsets: Offsets | None = None
    """None where nothing was said: the earliest for a batch, the latest for a stream."""
    ending_offsets: Offsets | None = None
    starting_timestamp_ms: int | None = None
    """Wins over offsets. From the first record that is not earlier; where there is none, as `starting_strategy` says."""
    ending_timestamp_ms: int | None = None
    """Up to the first record that is not earlier (exclusive); all where there is none."""
    starting_timestamps_ms: Mapping[TopicPartition, int] | None = None
    ending_timestamps_ms: Mapping[TopicPartition, int] | None = None
    """The same, for each partition; the one for all wins."""
    starting_strategy: str = "error"
    """Refuse a timestamp that no record reaches, or begin at the end (`latest`)."""
    latest: bool = False
    """Of each key the newest record that has a value, of what is committed; of a batch only."""
    include_headers: bool = False
    include_batch_columns: bool = False
    isolation_level: str = "read_uncommitted"
    mode: str = "FAILFAST"
    fail_on_data_loss: bool = True
    """Refuse offsets that the log does not have any more, or not yet; else read what there is of them."""
    pushdown: bool = False
    """Take filters from Spark, which must have been told to offer them (`spark.sql.python.filterPushdown.enabled`)."""
    max_partition_bytes: int = MAX_PARTITION_BYTES_DEFAULT
    """Of a log file for one task; about, as a task reads whole batches, from one index entry to another."""
    max_offsets_per_trigger: int | None = None
    """Of a micro-batch, over all partitions. Counts offsets, of which a compacted log has more than records."""

    @property
    def is_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def drops_malformed(self) -> bool:
        return self.mode == "DROPMALFORMED"


def parse_options(texts: Mapping[str, str]) -> ReadOptions:
    """Read options from their texts; names in any case, as Spark hands them over.

    Raises:
        UsageError: An unknown name, a value that cannot be, or no path.
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
            raise UsageError(f"unknown option {given}; there are {', '.join(OPTION_NAMES)}, and {FS_PREFIX}… of stores")
        option = OPTIONS[name]
        try:
            values[option.field] = option.parse(text)
        except (ValueError, KeyError, AttributeError, TypeError):
            raise UsageError(f"option {name} should be {option.form}, not {text!r}") from None
    if "path" not in values:
        raise UsageError('option path is missing: .load("<data directory>")')
    if values.get("ending_offsets") == EARLIEST:
        raise UsageError("option endingOffsets cannot be earliest")
    return ReadOptions(**values)
