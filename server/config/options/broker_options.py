"""The broker options that Ottla acts on, and the typed values of them.

Each is declared once, as a field of `BrokerOptions`; names, defaults and bounds are Apache Kafka 4.3.1's. Options that
only give topics their defaults are not declared again but derived from the topic options (`topic_default_options`).
What else Kafka knows is in `known_options.py`.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ....storage.topics.config import TOPIC_OPTIONS
from ....storage.topics.options import (
    MAX_INT,
    Check,
    Option,
    OptionType,
    UpdateMode,
    at_least,
    items_of,
    option,
    options_of,
)
from .group_options import GroupOptions

_BOOLEAN = OptionType.BOOLEAN
_DOUBLE = OptionType.DOUBLE
_INT = OptionType.INT
_LIST = OptionType.LIST
_LONG = OptionType.LONG
_SHORT = OptionType.SHORT
_STRING = OptionType.STRING

_FIXED = UpdateMode.READ_ONLY
_PER_BROKER = UpdateMode.PER_BROKER

_MIB = 1 << 20
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


def _assignors(names: tuple[str, ...]) -> bool:
    return bool(names) and {"uniform", "range"}.issuperset(names)


def _is_migration_policy(text: str) -> bool:
    return text.lower() in ("bidirectional", "upgrade", "downgrade", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerOptions(GroupOptions):
    """Typed values of the options that Ottla acts on."""

    add_partitions_to_txn_retry_backoff_max_ms: int = option(
        _INT,
        100,
        at_least(0),
        "How long a produce request may wait for its producer's last transaction to be closed.",
        update=_FIXED,
    )
    add_partitions_to_txn_retry_backoff_ms: int = option(
        _INT, 20, at_least(1), "How often it looks whether that is so.", update=_FIXED
    )
    advertised_listeners: tuple[str, ...] | None = option(
        _LIST,
        None,
        None,
        "Addresses that clients are told, NAME://HOST:PORT; without it, those of listeners.",
        update=_FIXED,
    )
    authorizer_class_name: str = option(
        _STRING,
        "",
        None,
        "Who decides what clients may do: Apache Kafka's StandardAuthorizer, or nobody.",
        update=_FIXED,
    )
    auto_create_topics_enable: bool = option(
        _BOOLEAN, True, None, "Create a topic when a client asks for metadata of one that is missing.", update=_FIXED
    )
    broker_id: int = option(_INT, -1, None, "Older name of node.id.", update=_FIXED)
    broker_rack: str | None = option(_STRING, None, None, "Rack that Metadata shows for this node.", update=_FIXED)
    connections_max_idle_ms: int = option(
        _LONG,
        600_000,
        None,
        "Close a connection on which no request came for this long; negative: never.",
        update=_FIXED,
    )
    controller_listener_names: tuple[str, ...] = option(
        _LIST, (), None, "Listeners at which a controller answers tools that ask one.", update=_FIXED
    )
    default_replication_factor: int = option(
        _INT, 1, None, "Replicas of topics that are created without a number.", update=_FIXED
    )
    delegation_token_expiry_check_interval_ms: int = option(
        _LONG, 3_600_000, at_least(1), "How often expired delegation tokens are taken away.", update=_FIXED
    )
    delegation_token_expiry_time_ms: int = option(
        _LONG, 86_400_000, at_least(1), "How long a delegation token is good unless it is renewed.", update=_FIXED
    )
    delegation_token_max_lifetime_ms: int = option(
        _LONG, 604_800_000, at_least(1), "How long a delegation token is good at most.", update=_FIXED
    )
    delegation_token_secret_key: str | None = option(
        OptionType.PASSWORD,
        None,
        None,
        "The key that delegation tokens' secrets are made with; without it there are none.",
        update=_FIXED,
    )
    delete_topic_enable: bool = option(_BOOLEAN, True, None, "Allow DeleteTopics.", update=_FIXED)
    fetch_max_bytes: int = option(
        _INT, 55 * _MIB, at_least(1024), "Most bytes of records in one fetch response.", update=_FIXED
    )
    group_consumer_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "How often a consumer group is assigned anew at most."
    )
    group_consumer_assignors: tuple[str, ...] = option(
        _LIST,
        ("uniform", "range"),
        Check("must be a list of uniform and range", _assignors),
        "Server-side assignors of consumer groups; the first is for members that name none.",
        update=_FIXED,
    )
    group_consumer_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "How often members of a consumer group are told to send heartbeats.", update=_FIXED
    )
    group_consumer_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Highest value of group.consumer.assignment.interval.ms.", update=_FIXED
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Highest value of group.consumer.heartbeat.interval.ms.", update=_FIXED
    )
    group_consumer_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Highest value of group.consumer.session.timeout.ms.", update=_FIXED
    )
    group_consumer_max_size: int = option(
        _INT, MAX_INT, at_least(1), "Most members of one consumer group.", update=_FIXED
    )
    group_consumer_migration_policy: str = option(
        _STRING,
        "bidirectional",
        Check("must be one of: bidirectional, upgrade, downgrade, disabled", _is_migration_policy),
        "Which groups with members may change between the classic and the consumer protocol.",
        update=_FIXED,
    )
    group_consumer_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Lowest value of group.consumer.assignment.interval.ms.", update=_FIXED
    )
    group_consumer_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Lowest value of group.consumer.heartbeat.interval.ms.", update=_FIXED
    )
    group_consumer_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Lowest value of group.consumer.session.timeout.ms.", update=_FIXED
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        _INT,
        600_000,
        at_least(10_000),
        "How often the topics that regular expressions match are looked for anew.",
        update=_FIXED,
        hidden=True,
    )
    group_consumer_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "When a silent member of a consumer group counts as failed.", update=_FIXED
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = option(
        _LIST,
        ("classic", "consumer", "streams"),
        items_of("classic", "consumer", "share", "streams"),
        "Group protocols that are offered; classic must be one.",
        update=_FIXED,
    )
    group_initial_rebalance_delay_ms: int = option(
        _INT,
        3000,
        None,
        "How long a new, empty group waits for more members before its first rebalance.",
        update=_FIXED,
    )
    group_max_session_timeout_ms: int = option(
        _INT, 1_800_000, None, "Longest session timeout that a group member may ask for.", update=_FIXED
    )
    group_max_size: int = option(_INT, MAX_INT, at_least(1), "Most members of one group.", update=_FIXED)
    group_min_session_timeout_ms: int = option(
        _INT, 6000, None, "Shortest session timeout that a group member may ask for.", update=_FIXED
    )
    listener_security_protocol_map: str = option(
        _STRING,
        DEFAULT_PROTOCOL_MAP,
        None,
        "Security protocol of each listener, NAME:PROTOCOL.",
        update=_PER_BROKER,
    )
    listeners: tuple[str, ...] = option(
        _LIST,
        ("PLAINTEXT://:9092",),
        None,
        "Addresses to listen on, NAME://HOST:PORT; port 0 takes a free one.",
        update=_PER_BROKER,
    )
    log_cleaner_backoff_ms: int = option(
        _LONG, 15_000, at_least(0), "How long the cleaner waits when no log is worth cleaning."
    )
    log_cleaner_dedupe_buffer_size: int = option(
        _LONG, 128 * _MIB, None, "Memory for the cleaner's offset maps, in bytes, all threads together."
    )
    log_cleaner_enable: bool = option(
        _BOOLEAN, True, None, "Run the cleaner; without it compacted logs grow for ever.", update=_FIXED
    )
    log_cleaner_io_buffer_load_factor: float = option(
        _DOUBLE, 0.9, None, "How full the offset map may get in one pass."
    )
    log_cleaner_io_buffer_size: int = option(
        _INT,
        512 * 1024,
        at_least(0),
        "Memory for the cleaner's read and write buffers, in bytes, all threads together.",
    )
    log_cleaner_io_max_bytes_per_second: float = option(
        _DOUBLE,
        sys.float_info.max,
        None,
        "Most bytes a second that the cleaner reads and writes, all threads together.",
    )
    log_cleaner_threads: int = option(_INT, 1, at_least(0), "Number of threads that clean logs.")
    log_dir: tuple[str, ...] = option(
        _LIST, ("/tmp/kafka-logs",), None, "Data directories where log.dirs is not given.", update=_FIXED
    )
    log_dir_failure_timeout_ms: int = option(
        _LONG,
        30_000,
        at_least(1),
        "How long the broker goes on without the data directory of its catalog, once that has failed.",
        update=_FIXED,
    )
    log_dirs: tuple[str, ...] | None = option(_LIST, None, None, "Data directories.", update=_FIXED)
    log_flush_offset_checkpoint_interval_ms: int = option(
        _INT, 60_000, at_least(0), "How often the points up to which logs are synced are written down.", update=_FIXED
    )
    log_flush_start_offset_checkpoint_interval_ms: int = option(
        _INT, 60_000, at_least(0), "How often log start offsets are written down.", update=_FIXED
    )
    log_initial_task_delay_ms: int = option(
        _LONG,
        30_000,
        at_least(0),
        "Time from start to the first run of the periodic log tasks.",
        update=_FIXED,
        hidden=True,
    )
    log_retention_check_interval_ms: int = option(
        _LONG,
        300_000,
        at_least(1),
        "How often logs are looked at for segments to delete by age or size.",
        update=_FIXED,
    )
    max_incremental_fetch_session_cache_slots: int = option(
        _INT, 1000, at_least(0), "Most incremental fetch sessions that a node remembers.", update=_FIXED
    )
    max_request_partition_size_limit: int = option(
        _INT, 2000, at_least(1), "Most partitions in one DescribeTopicPartitions response.", update=_FIXED
    )
    node_id: int = option(_INT, 0, at_least(0), "Id of the first node; further ones count on.", update=_FIXED)
    num_partitions: int = option(
        _INT, 1, at_least(1), "Partitions of topics that are created without a number.", update=_FIXED
    )
    offset_metadata_max_bytes: int = option(
        _INT, 4096, None, "Longest metadata text that may go with a committed offset.", update=_FIXED
    )
    offsets_retention_check_interval_ms: int = option(
        _LONG, 600_000, at_least(1), "How often groups are looked at for offsets to forget.", update=_FIXED
    )
    offsets_retention_minutes: int = option(
        _INT, 7 * 24 * 60, at_least(1), "How long the offsets of an empty group are kept.", update=_FIXED
    )
    offsets_topic_num_partitions: int = option(
        _INT, 50, at_least(1), "Partitions of __consumer_offsets.", update=_FIXED
    )
    offsets_topic_replication_factor: int = option(
        _SHORT, 3, at_least(1), "Replicas of __consumer_offsets; at most the number of nodes counts.", update=_FIXED
    )
    offsets_topic_segment_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Segment size of __consumer_offsets.", update=_FIXED
    )
    process_roles: tuple[str, ...] = option(
        _LIST,
        ("broker",),
        items_of("broker", "controller"),
        "Roles of a Kafka process; must name broker.",
        update=_FIXED,
    )
    producer_id_expiration_check_interval_ms: int = option(
        _INT, 600_000, at_least(1), "How often idle producers are looked for.", update=_FIXED, hidden=True
    )
    producer_id_expiration_ms: int = option(
        _INT, _DAY_MS, at_least(1), "How long an idle producer's last sequence numbers are remembered."
    )
    queued_max_request_bytes: int = option(
        _LONG, -1, None, "Most bytes of requests in memory at a time; not positive: no limit.", update=_FIXED
    )
    socket_listen_backlog_size: int = option(
        _INT,
        50,
        at_least(1),
        "Connections that may wait to be accepted; unless it is given, as many as the system lets wait.",
        update=_FIXED,
    )
    socket_request_max_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Largest request that is read.", update=_FIXED
    )
    telemetry_max_bytes: int = option(
        _INT, _MIB, at_least(1), "Most bytes of metrics that a client may push at a time.", update=_FIXED
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(
        _INT, 10_000, at_least(1), "How often open transactions are looked at for those to abort.", update=_FIXED
    )
    transaction_max_timeout_ms: int = option(
        _INT, 900_000, at_least(1), "Longest transaction timeout that a producer may ask for.", update=_FIXED
    )
    transaction_partition_verification_enable: bool = option(
        _BOOLEAN, True, None, "Check that a partition is in the transaction before a first batch of it is appended."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(
        _INT, _HOUR_MS, at_least(1), "How often transactional ids are looked at for those to forget.", update=_FIXED
    )
    transaction_state_log_min_isr: int = option(
        _INT,
        2,
        at_least(1),
        "Replicas of __transaction_state that must be in sync for a write; at most its replicas count.",
        update=_FIXED,
    )
    transaction_state_log_num_partitions: int = option(
        _INT, 50, at_least(1), "Partitions of __transaction_state.", update=_FIXED
    )
    transaction_state_log_replication_factor: int = option(
        _SHORT, 3, at_least(1), "Replicas of __transaction_state; at most the number of nodes counts.", update=_FIXED
    )
    transaction_state_log_segment_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Segment size of __transaction_state.", update=_FIXED
    )
    transaction_two_phase_commit_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether a producer may ask for a transaction that never times out: with InitProducerId 6, which is unstable.",
        update=_FIXED,
    )
    transactional_id_expiration_ms: int = option(
        _INT, 7 * _DAY_MS, at_least(1), "How long a transactional id without open transaction is kept.", update=_FIXED
    )
    unstable_api_versions_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether API versions are served that Apache Kafka 4.3.1 has not released: InitProducerId 6.",
        update=_FIXED,
        hidden=True,
    )
    unstable_feature_versions_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether metadata.version may have the level that Apache Kafka 4.3.1 has not released.",
        update=_FIXED,
        hidden=True,
    )


def topic_default_options() -> Iterator[Option]:
    """The broker options that give topic options their defaults, e.g. log.retention.ms, .minutes and .hours.

    Of several for one topic option, the strongest may change at run time, and the weakest has the default value.
    """
    for topic in TOPIC_OPTIONS.values():
        for position, synonym in enumerate(topic.synonyms):
            is_last = position == len(topic.synonyms) - 1
            default = topic.default
            if isinstance(default, int) and synonym.factor > 1:
                default //= synonym.factor
            yield Option(
                synonym.name,
                topic.type if synonym.factor == 1 else _INT,
                default if is_last else None,
                topic.check,
                _topic_default_doc(topic, position),
                UpdateMode.CLUSTER_WIDE if position == 0 else _FIXED,
                acts=topic.acts,
            )


def _topic_default_doc(topic: Option, position: int) -> str:
    unit = {60_000: ", in minutes", 3_600_000: ", in hours"}.get(topic.synonyms[position].factor, "")
    stronger = topic.synonyms[position - 1].name if position else None
    condition = f", where {stronger} is not given" if stronger else ""
    return f"Default of the topic option {topic.name}{unit}{condition}." + ("" if topic.acts else " Kept and shown.")


ACTED_ON: dict[str, Option] = options_of(BrokerOptions)
