"""The options of a topic, and `LogConfig`, the values of them that one log runs with.

`LogConfig` is at once the table of topic options (`TOPIC_OPTIONS`) and the typed object that the log, the cleaner and
retention read. It is immutable: a change of configuration puts a new object in its place, which holds from the next
append, roll or clean pass on. Names, defaults and bounds are Apache Kafka 4.3.1's.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .options import (
    MAX_LONG,
    Check,
    ConfigError,
    Option,
    OptionType,
    Synonym,
    Value,
    at_least,
    between,
    items_of,
    one_of,
    option,
    options_of,
    parse_all,
)

__all__ = ["TOPIC_OPTIONS", "ConfigError", "LogConfig"]

COMPACT = "compact"
DELETE = "delete"

_BOOLEAN = OptionType.BOOLEAN
_DOUBLE = OptionType.DOUBLE
_INT = OptionType.INT
_LIST = OptionType.LIST
_LONG = OptionType.LONG
_STRING = OptionType.STRING

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_MIB = 1 << 20

SEGMENT_BYTES_MIN = _MIB

_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_THROTTLED_REPLICAS = Check(
    "must be * or a list of PARTITION:BROKER",
    lambda items: tuple(items) == ("*",) or all(_REPLICA.fullmatch(item) for item in items),
)


INDEX_DISTANCE_BYTES_MAX = 256 << 10
"""Of two entries of an offset index. Every fetch goes from the entry before its offset from batch to batch, half a microsecond
each: 2 ms here, and seconds in a segment without entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The values of all topic options for one log. Built directly, it checks nothing; see `from_texts`.

    `segment_bytes` is the size that counts: `internal.segment.bytes`, where given, is already in it.
    """

    cleanup_policy: tuple[str, ...] = option(
        _LIST,
        (DELETE,),
        items_of(COMPACT, DELETE),
        "What happens to old records: delete drops whole segments by age and size, compact keeps the last record of"
        " every key, both do both. An empty list keeps everything.",
        "log.cleanup.policy",
    )
    compression_gzip_level: int = option(
        _INT,
        -1,
        Check("must be -1 or between 1 and 9", lambda value: value == -1 or 1 <= value <= 9),
        "Level for batches that the broker compresses with gzip; -1 is zlib's own default.",
        "compression.gzip.level",
    )
    compression_lz4_level: int = option(
        _INT, 9, between(1, 17), "Level for batches that the broker compresses with lz4.", "compression.lz4.level"
    )
    compression_type: str = option(
        _STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec in which batches are stored; producer keeps what the client sent, byte for byte.",
        "compression.type",
    )
    compression_zstd_level: int = option(
        _INT,
        3,
        between(-131072, 22),
        "Level for batches that the broker compresses with zstd.",
        "compression.zstd.level",
    )
    delete_retention_ms: int = option(
        _LONG,
        _DAY_MS,
        at_least(0),
        "How long a compacted log keeps a tombstone after the first clean pass that saw it.",
        "log.cleaner.delete.retention.ms",
    )
    file_delete_delay_ms: int = option(
        _LONG,
        _MINUTE_MS,
        at_least(0),
        "How long a removed file stays on disk under its .deleted name, for readers that still hold it.",
        "log.segment.delete.delay.ms",
    )
    flush_messages: int = option(
        _LONG,
        MAX_LONG,
        at_least(1),
        "Number of records after which the log is synced to disk; 1 syncs every append.",
        "log.flush.interval.messages",
    )
    flush_ms: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Longest time that appended records wait for a sync to disk.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "New replicas for which follower.replication.throttled.rate of their node counts; * for all.",
    )
    index_interval_bytes: int = option(
        _INT,
        4096,
        at_least(0),
        "About how many bytes of log lie between two entries of the offset index.",
        "log.index.interval.bytes",
    )
    internal_segment_bytes: int | None = option(
        _INT,
        None,
        at_least(1),
        "Segment size without the lower bound of segment.bytes, for tests; wins over it.",
        hidden=True,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "Leaders for which leader.replication.throttled.rate of their node counts; * for all.",
    )
    local_retention_bytes: int = option(
        _LONG,
        -2,
        at_least(-2),
        "Size of the local part of a tiered log; kept and shown, tiering is not offered.",
        "log.local.retention.bytes",
        acts=False,
    )
    local_retention_ms: int = option(
        _LONG,
        -2,
        at_least(-2),
        "Age of the local part of a tiered log; kept and shown, tiering is not offered.",
        "log.local.retention.ms",
        acts=False,
    )
    max_compaction_lag_ms: int = option(
        _LONG,
        MAX_LONG,
        at_least(1),
        "Age of an uncompacted record that makes its log eligible for cleaning whatever its dirty ratio; also bounds"
        " how long a compacted log's active segment stays active.",
        "log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes: int = option(
        _INT,
        _MIB + 12,
        at_least(0),
        "Largest batch that the topic takes, in bytes with its header.",
        "message.max.bytes",
    )
    message_timestamp_after_max_ms: int = option(
        _LONG,
        _HOUR_MS,
        at_least(0),
        "How far a record's timestamp may lie ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "How far a record's timestamp may lie behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = option(
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record carries: the producer's, or the broker's at append.",
        "log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = option(
        _DOUBLE,
        0.5,
        between(0, 1),
        "A log is cleaned when more than this part of it, the active segment aside, has not been cleaned yet.",
        "log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = option(
        _LONG,
        0,
        at_least(0),
        "How long a record stays untouched by the cleaner, counted from its timestamp.",
        "log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = option(
        _INT,
        1,
        at_least(1),
        "In-sync replicas that a produce with acks=all needs; for the broker's own topics at most the number of nodes counts.",
        "min.insync.replicas",
    )
    preallocate: bool = option(
        _BOOLEAN, False, None, "Reserve a segment's space on disk when it is made.", "log.preallocate"
    )
    remote_log_copy_disable: bool = option(_BOOLEAN, False, None, "Kept and shown; tiering is not offered.", acts=False)
    remote_log_delete_on_disable: bool = option(
        _BOOLEAN, False, None, "Kept and shown; tiering is not offered.", acts=False
    )
    remote_storage_enable: bool = option(_BOOLEAN, False, None, "Tiered storage; not offered, so true is refused.")
    retention_bytes: int = option(
        _LONG,
        -1,
        None,
        "Size of a partition above which the oldest segments go, with cleanup.policy delete; negative: no limit.",
        "log.retention.bytes",
    )
    retention_ms: int = option(
        _LONG,
        7 * _DAY_MS,
        at_least(-1),
        "Age after which a segment goes, with cleanup.policy delete; -1: no limit.",
        "log.retention.ms",
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    )
    segment_bytes: int = option(
        _INT,
        1 << 30,
        at_least(SEGMENT_BYTES_MIN),
        "Size at which a segment is closed and the next one begins. Only closed segments are cleaned or deleted.",
        "log.segment.bytes",
    )
    segment_index_bytes: int = option(
        _INT,
        10 * _MIB,
        at_least(4),
        "Largest size of a segment's offset and time index; a full index closes the segment.",
        "log.index.size.max.bytes",
    )
    segment_jitter_ms: int = option(
        _LONG,
        0,
        at_least(0),
        "Random time, up to this, by which segment.ms is shortened, so that logs do not all roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    )
    segment_ms: int = option(
        _LONG,
        7 * _DAY_MS,
        at_least(1),
        "Age at which the next append closes a segment that is not full.",
        "log.roll.ms",
        Synonym("log.roll.hours", _HOUR_MS),
    )
    unclean_leader_election_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether any live node may lead a partition when none of its in-sync ones lives. There is one copy of the data,"
        " so no election can lose any.",
        "unclean.leader.election.enable",
    )

    # Of these each append asks.
    is_compact: bool = field(init=False, compare=False, repr=False)
    roll_after_ms: int = field(init=False, compare=False, repr=False)
    """How long a segment grows, jitter aside."""

    def __post_init__(self) -> None:
        is_compact = COMPACT in self.cleanup_policy
        object.__setattr__(self, "is_compact", is_compact)
        roll_after_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_compact else self.segment_ms
        object.__setattr__(self, "roll_after_ms", roll_after_ms)

    @property
    def is_delete(self) -> bool:
        return DELETE in self.cleanup_policy

    @property
    def index_distance_bytes(self) -> int:
        """`index.interval.bytes` as far as a search may take it."""
        return min(self.index_interval_bytes, INDEX_DISTANCE_BYTES_MAX)

    @classmethod
    def from_values(cls, values: Mapping[str, Value], base: "LogConfig | None" = None) -> "LogConfig":
        """`base` (Kafka's defaults without one) with `values`, by Kafka's names, on top. Checks nothing."""
        changes = {TOPIC_OPTIONS[name].attribute: value for name, value in values.items()}
        if changes.get("internal_segment_bytes") is not None:
            changes["segment_bytes"] = changes["internal_segment_bytes"]
        return dataclasses.replace(base or cls(), **changes)  # type: ignore[arg-type]

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], base: "LogConfig | None" = None) -> "LogConfig":
        """`base` with the overrides of one topic on top, all checked, alone and against each other.

        ConfigError names the value, the option and the bound.
        """
        values = {found.name: value for found, value in parse_all(TOPIC_OPTIONS, texts)}
        config = cls.from_values(values, base)
        config.check()
        return config

    @classmethod
    def from_stored(cls, texts: Mapping[str, str], base: "LogConfig | None" = None) -> "tuple[LogConfig, list[str]]":
        """As `from_texts` for overrides found on disk, which another version or Apache Kafka may have written.

        Values that this version does not take are left out, values that contradict each other stay; the list
        tells of both. Never raises.
        """
        values: dict[str, Value] = {}
        problems = []
        for name, text in texts.items():
            try:
                values[name] = parse_value(name, text)
            except ConfigError as error:
                problems.append(str(error))
        config = cls.from_values(values, base)
        try:
            config.check()
        except ConfigError as error:
            problems.append(str(error))
        return config, problems

    def check(self) -> None:
        """The rules between options. ConfigError for the first one broken."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            bound = f"must not exceed max.compaction.lag.ms={self.max_compaction_lag_ms}"
            raise TOPIC_OPTIONS["min.compaction.lag.ms"].error(str(self.min_compaction_lag_ms), bound)
        if self.remote_storage_enable:
            raise TOPIC_OPTIONS["remote.storage.enable"].error("true", "tiered storage is not offered")


TOPIC_OPTIONS: dict[str, Option] = options_of(LogConfig)


def parse_value(name: str, text: str) -> Value:
    """The value of the topic option `name` that `text` means. ConfigError for an unknown name or a bad value."""
    return next(value for _, value in parse_all(TOPIC_OPTIONS, {name: text}))
