"""Options of a topic, and `LogConfig`, their values for one log.

`LogConfig` is both the table of topic options (`TOPIC_OPTIONS`) and the typed object that the log, the cleaner and
retention read. It is immutable: a change of configuration replaces the object, and takes effect from the next append, roll or
clean pass on. Names, defaults and bounds are Apache Kafka's.
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
from .versions import BY_HEADER, BY_OFFSET, BY_TIMESTAMP, VersionSource, version_source

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
RECORD_BYTES_MAX = 2**31 - 9
"""Largest array of Apache Kafka's JVM."""

_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_THROTTLED_REPLICAS = Check(
    "must be * or a list of PARTITION:BROKER",
    lambda items: tuple(items) == ("*",) or all(_REPLICA.fullmatch(item) for item in items),
)


INDEX_DISTANCE_BYTES_MAX = 256 << 10
"""Largest distance of two offset index entries. A fetch scans the batches from the entry before its offset on, at half a
microsecond each: 2 ms for this distance, and seconds in a segment without entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The values of all topic options for one log. The constructor checks nothing; see `from_texts`.

    `segment_bytes` is the effective size: `internal.segment.bytes`, if given, has replaced it.
    """

    cleanup_policy: tuple[str, ...] = option(
        _LIST,
        (DELETE,),
        items_of(COMPACT, DELETE),
        "What happens to old records: delete removes whole segments by age and size, compact keeps the last record of"
        " every key, both do both. An empty list keeps everything.",
        "log.cleanup.policy",
    )
    compression_gzip_level: int = option(
        _INT,
        -1,
        Check("must be -1 or between 1 and 9", lambda value: value == -1 or 1 <= value <= 9),
        "Compression level for batches that the broker compresses with gzip; -1 is the default of zlib.",
        "compression.gzip.level",
    )
    compression_lz4_level: int = option(
        _INT,
        9,
        between(1, 17),
        "Compression level for batches that the broker compresses with lz4.",
        "compression.lz4.level",
    )
    compression_type: str = option(
        _STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec in which batches are stored; producer keeps the codec of the client, byte for byte.",
        "compression.type",
    )
    compression_zstd_level: int = option(
        _INT,
        3,
        between(-131072, 22),
        "Compression level for batches that the broker compresses with zstd.",
        "compression.zstd.level",
    )
    delete_retention_ms: int = option(
        _LONG,
        _DAY_MS,
        at_least(0),
        "Time that a compacted log keeps a tombstone after the first clean pass that has read it.",
        "log.cleaner.delete.retention.ms",
    )
    errors_deadletterqueue_group_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether share groups may write dead letters to the topic.",
    )
    file_delete_delay_ms: int = option(
        _LONG,
        _MINUTE_MS,
        at_least(0),
        "Time that a deleted file stays on disk with the suffix .deleted, for readers that still use it.",
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
        "Maximum time that appended records wait for a sync to disk.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "New replicas to which follower.replication.throttled.rate of their node applies; * for all.",
    )
    index_interval_bytes: int = option(
        _INT,
        4096,
        at_least(0),
        "Approximate number of bytes of log between two entries of the offset index.",
        "log.index.interval.bytes",
    )
    internal_segment_bytes: int | None = option(
        _INT,
        None,
        at_least(1),
        "Segment size without the lower bound of segment.bytes, for tests; takes precedence over it.",
        hidden=True,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "Leaders to which leader.replication.throttled.rate of their node applies; * for all.",
    )
    local_retention_bytes: int = option(
        _LONG,
        -2,
        at_least(-2),
        "Size of the local part of a tiered log. No effect in Ottla: tiered storage is not supported.",
        "log.local.retention.bytes",
        acts=False,
    )
    local_retention_ms: int = option(
        _LONG,
        -2,
        at_least(-2),
        "Age of the local part of a tiered log. No effect in Ottla: tiered storage is not supported.",
        "log.local.retention.ms",
        acts=False,
    )
    max_compaction_lag_ms: int = option(
        _LONG,
        MAX_LONG,
        at_least(1),
        "Age of an uncompacted record at which its log becomes eligible for cleaning regardless of its dirty ratio;"
        " also limits how long the active segment of a compacted log stays active.",
        "log.cleaner.max.compaction.lag.ms",
    )
    max_decompressed_message_bytes: int = option(
        _INT,
        RECORD_BYTES_MAX,
        between(1, RECORD_BYTES_MAX),
        "Maximum size of a record in a compressed batch, unpacked. A batch with a larger one is refused; a log with one is not"
        " cleaned. In any case, a batch may unpack to at most 128 MiB.",
        "max.decompressed.message.bytes",
    )
    max_message_bytes: int = option(
        _INT,
        _MIB + 12,
        at_least(0),
        "Maximum batch size of the topic, in bytes including the header.",
        "message.max.bytes",
    )
    message_timestamp_after_max_ms: int = option(
        _LONG,
        _HOUR_MS,
        at_least(0),
        "Maximum time that the timestamp of a record may be ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = option(
        _LONG,
        MAX_LONG,
        at_least(0),
        "Maximum time that the timestamp of a record may be behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = option(
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Timestamp of a record: that of the producer, or the time of the append.",
        "log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = option(
        _DOUBLE,
        0.5,
        between(0, 1),
        "Dirty ratio above which a log is cleaned: the uncleaned part of the log, without the active segment.",
        "log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = option(
        _LONG,
        0,
        at_least(0),
        "Minimum age of a record, by its timestamp, before it may be compacted.",
        "log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas: int = option(
        _INT,
        1,
        at_least(1),
        "In-sync replicas required for a produce request with acks=all; for internal topics limited to the number of"
        " nodes.",
        "min.insync.replicas",
    )
    ottla_compaction_strategy: str = option(
        _STRING,
        BY_OFFSET,
        one_of(BY_OFFSET, BY_TIMESTAMP, BY_HEADER),
        "Which record of a key a clean pass keeps: the one with the highest offset, timestamp, or number in the header"
        " ottla.compaction.strategy.header. The offset decides between equal ones. Only Ottla has this option (KIP-280).",
        hidden=True,
    )
    ottla_compaction_strategy_header: str = option(
        _STRING,
        "",
        None,
        "Name of the header with a record's version, 8 bytes big-endian, for ottla.compaction.strategy=header. A record"
        " without it loses against all others. Only Ottla has this option (KIP-280).",
        hidden=True,
    )
    ottla_key_retention_ms: int = option(
        _LONG,
        -1,
        at_least(-1),
        "Age at which a clean pass removes a record with a value, even if it is the newest of its key; -1: no limit. Only"
        " Ottla has this option.",
        hidden=True,
    )
    preallocate: bool = option(
        _BOOLEAN, False, None, "Reserve the disk space of a segment when it is created.", "log.preallocate"
    )
    remote_copy_lag_bytes: int = option(
        _LONG,
        -1,
        at_least(-1),
        "Bytes of newer records from which on a segment is copied to remote storage; 0: at once, -1: from"
        " local.retention.bytes. No effect in Ottla: tiered storage is not supported.",
        "log.remote.copy.lag.bytes",
        acts=False,
    )
    remote_copy_lag_ms: int = option(
        _LONG,
        0,
        at_least(-1),
        "Age from which on a segment is copied to remote storage; 0: at once, -1: from local.retention.ms. No effect in"
        " Ottla: tiered storage is not supported.",
        "log.remote.copy.lag.ms",
        acts=False,
    )
    remote_log_copy_disable: bool = option(
        _BOOLEAN, False, None, "No effect in Ottla: tiered storage is not supported.", acts=False
    )
    remote_log_delete_on_disable: bool = option(
        _BOOLEAN, False, None, "No effect in Ottla: tiered storage is not supported.", acts=False
    )
    remote_storage_enable: bool = option(_BOOLEAN, False, None, "Tiered storage; not supported, so true is rejected.")
    retention_bytes: int = option(
        _LONG,
        -1,
        None,
        "Size of a partition above which the oldest segments are deleted, with cleanup.policy delete; negative: no"
        " limit.",
        "log.retention.bytes",
    )
    retention_ms: int = option(
        _LONG,
        7 * _DAY_MS,
        at_least(-1),
        "Age at which a segment is deleted, with cleanup.policy delete; -1: no limit.",
        "log.retention.ms",
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    )
    segment_bytes: int = option(
        _INT,
        1 << 30,
        at_least(SEGMENT_BYTES_MIN),
        "Size at which a segment is closed and the next one starts. Only closed segments are cleaned or deleted.",
        "log.segment.bytes",
    )
    segment_index_bytes: int = option(
        _INT,
        10 * _MIB,
        at_least(4),
        "Maximum size of the offset and time index of a segment; a full index closes the segment.",
        "log.index.size.max.bytes",
    )
    segment_jitter_ms: int = option(
        _LONG,
        0,
        at_least(0),
        "Maximum random time by which segment.ms is reduced, so that logs do not all roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    )
    segment_ms: int = option(
        _LONG,
        7 * _DAY_MS,
        at_least(1),
        "Age at which the next append closes a segment, even if it is not full.",
        "log.roll.ms",
        Synonym("log.roll.hours", _HOUR_MS),
    )
    unclean_leader_election_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether any live node may become leader if no in-sync replica is alive. There is one copy of the data, so an"
        " election cannot lose records.",
        "unclean.leader.election.enable",
    )

    # Read by each append.
    is_compact: bool = field(init=False, compare=False, repr=False)
    roll_after_ms: int = field(init=False, compare=False, repr=False)
    """Time after which a segment rolls, without jitter."""
    is_stored_as_sent: bool = field(init=False, compare=False, repr=False)
    """Whether uncompressed batches get neither another codec nor another timestamp."""

    def __post_init__(self) -> None:
        is_compact = COMPACT in self.cleanup_policy
        object.__setattr__(self, "is_compact", is_compact)
        roll_after_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_compact else self.segment_ms
        if is_compact and self.ottla_key_retention_ms >= 0:
            roll_after_ms = min(roll_after_ms, max(1, self.ottla_key_retention_ms))
        object.__setattr__(self, "roll_after_ms", roll_after_ms)
        is_stored_as_sent = (
            self.compression_type in ("producer", "uncompressed") and self.message_timestamp_type == "CreateTime"
        )
        object.__setattr__(self, "is_stored_as_sent", is_stored_as_sent)

    @property
    def is_delete(self) -> bool:
        return DELETE in self.cleanup_policy

    @property
    def version_source(self) -> VersionSource | None:
        """The place of the versions that decide which record of a key stays; None: the newest record stays."""
        return version_source(self.ottla_compaction_strategy, self.ottla_compaction_strategy_header)

    def aged_up_to_ms(self, now_ms: int) -> int:
        """Return the largest timestamp of records that a pass at this time removes for their age; -1: of none."""
        return max(-1, now_ms - self.ottla_key_retention_ms) if self.ottla_key_retention_ms >= 0 else -1

    @property
    def key_retention_slack_ms(self) -> int:
        """Time by which the oldest record must exceed its age before a pass is due, so that passes are not continuous."""
        return self.ottla_key_retention_ms // 16

    @property
    def index_distance_bytes(self) -> int:
        """`index.interval.bytes`, but at most INDEX_DISTANCE_BYTES_MAX."""
        return min(self.index_interval_bytes, INDEX_DISTANCE_BYTES_MAX)

    @classmethod
    def from_values(cls, values: Mapping[str, Value], base: "LogConfig | None" = None) -> "LogConfig":
        """Return `base` (default: Kafka's defaults) with `values`, by Kafka's names, replaced. Checks nothing."""
        changes = {TOPIC_OPTIONS[name].attribute: value for name, value in values.items()}
        if changes.get("internal_segment_bytes") is not None:
            changes["segment_bytes"] = changes["internal_segment_bytes"]
        return dataclasses.replace(base or cls(), **changes)  # type: ignore[arg-type]

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], base: "LogConfig | None" = None) -> "LogConfig":
        """Return `base` with the overrides of one topic, after checking each value and the rules between options.

        The text of a ConfigError has the value, the option and the bound.
        """
        values = {found.name: value for found, value in parse_all(TOPIC_OPTIONS, texts)}
        config = cls.from_values(values, base)
        config.check()
        return config

    @classmethod
    def from_stored(cls, texts: Mapping[str, str], base: "LogConfig | None" = None) -> "tuple[LogConfig, list[str]]":
        """Return `base` with overrides from the disk, which another version or Apache Kafka may have written.

        Invalid values are left out, values that contradict each other stay; the returned list has an error text for each.
        Never raises.
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
        """Check the rules between options. ConfigError for the first one broken."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            bound = f"must not exceed max.compaction.lag.ms={self.max_compaction_lag_ms}"
            raise TOPIC_OPTIONS["min.compaction.lag.ms"].error(str(self.min_compaction_lag_ms), bound)
        strategy = self.ottla_compaction_strategy
        if strategy != BY_OFFSET and not self.is_compact:
            raise TOPIC_OPTIONS["ottla.compaction.strategy"].error(strategy, "cleanup.policy must include compact")
        if strategy == BY_HEADER and not self.ottla_compaction_strategy_header:
            raise TOPIC_OPTIONS["ottla.compaction.strategy"].error(
                strategy, "ottla.compaction.strategy.header must name a header"
            )
        if self.ottla_key_retention_ms >= 0 and not self.is_compact:
            raise TOPIC_OPTIONS["ottla.key.retention.ms"].error(
                str(self.ottla_key_retention_ms), "cleanup.policy must include compact"
            )
        if self.remote_storage_enable:
            raise TOPIC_OPTIONS["remote.storage.enable"].error("true", "tiered storage is not supported")


TOPIC_OPTIONS: dict[str, Option] = options_of(LogConfig)


def parse_value(name: str, text: str) -> Value:
    """Parse a value of the topic option `name`. ConfigError for an unknown name or an invalid value."""
    return next(value for _, value in parse_all(TOPIC_OPTIONS, {name: text}))
