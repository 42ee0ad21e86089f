"""Broker options that Ottla acts on, and their typed values.

Each is declared once, as a field of `BrokerOptions`; names, defaults and bounds are Apache Kafka's. Options that
only give topics their defaults are not declared again but derived from the topic options (`topic_default_options`).
Kafka's other options are in `known_options.py`.
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
        "Maximum time that a produce request waits until its producer's previous transaction is complete.",
        update=_FIXED,
    )
    add_partitions_to_txn_retry_backoff_ms: int = option(
        _INT, 20, at_least(1), "Interval at which this is checked.", update=_FIXED
    )
    advertised_listeners: tuple[str, ...] | None = option(
        _LIST,
        None,
        None,
        "Addresses sent to clients, NAME://HOST:PORT; by default those of listeners.",
        update=_FIXED,
    )
    authorizer_class_name: str = option(
        _STRING,
        "",
        None,
        "Class that authorizes clients: Apache Kafka's StandardAuthorizer, or empty for no authorization.",
        update=_FIXED,
    )
    auto_create_topics_enable: bool = option(
        _BOOLEAN, True, None, "Create a topic when a client requests metadata of a missing one.", update=_FIXED
    )
    broker_id: int = option(_INT, -1, None, "Former name of node.id.", update=_FIXED)
    broker_rack: str | None = option(_STRING, None, None, "Rack that Metadata reports for this node.", update=_FIXED)
    connections_max_idle_ms: int = option(
        _LONG,
        600_000,
        None,
        "Close a connection without requests for this long; negative: never.",
        update=_FIXED,
    )
    controller_listener_names: tuple[str, ...] = option(
        _LIST, (), None, "Listeners on which a controller answers admin tools.", update=_FIXED
    )
    default_replication_factor: int = option(
        _INT, 1, None, "Replication factor of topics that are created without one.", update=_FIXED
    )
    delegation_token_expiry_check_interval_ms: int = option(
        _LONG, 3_600_000, at_least(1), "Interval at which expired delegation tokens are deleted.", update=_FIXED
    )
    delegation_token_expiry_time_ms: int = option(
        _LONG,
        86_400_000,
        at_least(1),
        "Time after which a delegation token expires unless it is renewed.",
        update=_FIXED,
    )
    delegation_token_max_lifetime_ms: int = option(
        _LONG, 604_800_000, at_least(1), "Maximum lifetime of a delegation token.", update=_FIXED
    )
    delegation_token_secret_key: str | None = option(
        OptionType.PASSWORD,
        None,
        None,
        "Secret key from which delegation tokens are derived; without it, tokens are disabled.",
        update=_FIXED,
    )
    delete_topic_enable: bool = option(_BOOLEAN, True, None, "Allow DeleteTopics.", update=_FIXED)
    errors_deadletterqueue_auto_create_topics_enable: bool = option(
        _BOOLEAN, False, None, "Create the dead letter topic of a share group when its first dead letter is written."
    )
    errors_deadletterqueue_topic_name_prefix: str = option(
        _STRING, "dlq.", None, "How the name of every dead letter topic must begin; empty: any name."
    )
    fetch_max_bytes: int = option(
        _INT, 55 * _MIB, at_least(1024), "Maximum size of records in one fetch response, in bytes.", update=_FIXED
    )
    group_consumer_assignment_interval_ms: int = option(
        _INT, 1000, at_least(0), "Minimum time between two assignments of a consumer group."
    )
    group_consumer_assignors: tuple[str, ...] = option(
        _LIST,
        ("uniform", "range"),
        Check("must be a list of uniform and range", _assignors),
        "Server-side assignors of consumer groups; the first is the default for members.",
        update=_FIXED,
    )
    group_consumer_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Interval at which members of a consumer group must send heartbeats.", update=_FIXED
    )
    group_consumer_max_assignment_interval_ms: int = option(
        _INT, 15_000, at_least(0), "Maximum value of group.consumer.assignment.interval.ms.", update=_FIXED
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        _INT, 15_000, at_least(1), "Maximum value of group.consumer.heartbeat.interval.ms.", update=_FIXED
    )
    group_consumer_max_session_timeout_ms: int = option(
        _INT, 60_000, at_least(1), "Maximum value of group.consumer.session.timeout.ms.", update=_FIXED
    )
    group_consumer_max_size: int = option(
        _INT, MAX_INT, at_least(1), "Maximum number of members of one consumer group.", update=_FIXED
    )
    group_consumer_migration_policy: str = option(
        _STRING,
        "bidirectional",
        Check("must be one of: bidirectional, upgrade, downgrade, disabled", _is_migration_policy),
        "Which groups with members may be converted between the classic and the consumer protocol.",
        update=_FIXED,
    )
    group_consumer_min_assignment_interval_ms: int = option(
        _INT, 0, at_least(0), "Minimum value of group.consumer.assignment.interval.ms.", update=_FIXED
    )
    group_consumer_min_heartbeat_interval_ms: int = option(
        _INT, 5000, at_least(1), "Minimum value of group.consumer.heartbeat.interval.ms.", update=_FIXED
    )
    group_consumer_min_session_timeout_ms: int = option(
        _INT, 45_000, at_least(1), "Minimum value of group.consumer.session.timeout.ms.", update=_FIXED
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        _INT,
        600_000,
        at_least(10_000),
        "Interval at which the topics that match regular expressions are resolved again.",
        update=_FIXED,
        hidden=True,
    )
    group_consumer_session_timeout_ms: int = option(
        _INT,
        45_000,
        at_least(1),
        "Time without heartbeats after which a member of a consumer group is removed.",
        update=_FIXED,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = option(
        _LIST,
        ("classic", "consumer", "streams"),
        items_of("classic", "consumer", "share", "streams"),
        "Group protocols that are enabled; must contain classic.",
        update=_FIXED,
    )
    group_initial_rebalance_delay_ms: int = option(
        _INT,
        3000,
        None,
        "Time that a new, empty group waits for more members before its first rebalance.",
        update=_FIXED,
    )
    group_max_session_timeout_ms: int = option(
        _INT, 1_800_000, None, "Maximum session timeout that a group member may request.", update=_FIXED
    )
    group_max_size: int = option(_INT, MAX_INT, at_least(1), "Maximum number of members of one group.", update=_FIXED)
    group_min_session_timeout_ms: int = option(
        _INT, 6000, None, "Minimum session timeout that a group member may request.", update=_FIXED
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
        _LONG, 15_000, at_least(0), "Time that the cleaner waits if no log needs cleaning."
    )
    log_cleaner_dedupe_buffer_size: int = option(
        _LONG, 128 * _MIB, None, "Memory for the cleaner's offset maps, in bytes, for all threads together."
    )
    log_cleaner_enable: bool = option(
        _BOOLEAN, True, None, "Run the cleaner; without it compacted logs grow without limit.", update=_FIXED
    )
    log_cleaner_io_buffer_load_factor: float = option(
        _DOUBLE, 0.9, None, "Maximum load factor of the offset map in one pass."
    )
    log_cleaner_io_buffer_size: int = option(
        _INT,
        512 * 1024,
        at_least(0),
        "Memory for the cleaner's read and write buffers, in bytes, for all threads together.",
    )
    log_cleaner_io_max_bytes_per_second: float = option(
        _DOUBLE,
        sys.float_info.max,
        None,
        "Maximum I/O of the cleaner in bytes per second, for all threads together.",
    )
    log_cleaner_threads: int = option(_INT, 1, at_least(0), "Number of cleaner threads.")
    log_dir: tuple[str, ...] = option(
        _LIST, ("/tmp/kafka-logs",), None, "Data directory, used if log.dirs is not set.", update=_FIXED
    )
    log_dir_failure_timeout_ms: int = option(
        _LONG,
        30_000,
        at_least(1),
        "Time after which the broker stops if the data directory of its catalog has failed.",
        update=_FIXED,
    )
    log_dirs: tuple[str, ...] | None = option(_LIST, None, None, "Data directories.", update=_FIXED)
    log_flush_offset_checkpoint_interval_ms: int = option(
        _INT, 60_000, at_least(0), "Interval at which the recovery points of logs are written.", update=_FIXED
    )
    log_flush_start_offset_checkpoint_interval_ms: int = option(
        _INT, 60_000, at_least(0), "Interval at which log start offsets are written.", update=_FIXED
    )
    log_initial_task_delay_ms: int = option(
        _LONG,
        30_000,
        at_least(0),
        "Delay between the start and the first run of the periodic log tasks.",
        update=_FIXED,
        hidden=True,
    )
    log_retention_check_interval_ms: int = option(
        _LONG,
        300_000,
        at_least(1),
        "Interval at which logs are checked for segments to delete by age or size.",
        update=_FIXED,
    )
    max_incremental_fetch_session_cache_slots: int = option(
        _INT, 1000, at_least(0), "Maximum number of incremental fetch sessions of a node.", update=_FIXED
    )
    max_request_partition_size_limit: int = option(
        _INT, 2000, at_least(1), "Maximum number of partitions in one DescribeTopicPartitions response.", update=_FIXED
    )
    node_id: int = option(
        _INT, 0, at_least(0), "ID of the first node; the other nodes have the next IDs.", update=_FIXED
    )
    num_partitions: int = option(
        _INT, 1, at_least(1), "Number of partitions of topics that are created without one.", update=_FIXED
    )
    offset_metadata_max_bytes: int = option(
        _INT, 4096, None, "Maximum size of the metadata of a committed offset.", update=_FIXED
    )
    offsets_retention_check_interval_ms: int = option(
        _LONG, 600_000, at_least(1), "Interval at which groups are checked for expired offsets.", update=_FIXED
    )
    offsets_retention_minutes: int = option(
        _INT, 7 * 24 * 60, at_least(1), "Time after which the offsets of an empty group expire.", update=_FIXED
    )
    offsets_topic_num_partitions: int = option(
        _INT, 50, at_least(1), "Number of partitions of __consumer_offsets.", update=_FIXED
    )
    offsets_topic_replication_factor: int = option(
        _SHORT,
        3,
        at_least(1),
        "Replication factor of __consumer_offsets; limited to the number of nodes.",
        update=_FIXED,
    )
    offsets_topic_segment_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Segment size of __consumer_offsets.", update=_FIXED
    )
    ottla_hold_heartbeats: bool = option(
        _BOOLEAN,
        False,
        None,
        "Hold the response to a heartbeat back until the group changes, so that members learn of a rebalance at once. Only Ottla"
        " has this option.",
        update=_FIXED,
        hidden=True,
    )
    process_roles: tuple[str, ...] = option(
        _LIST,
        ("broker",),
        items_of("broker", "controller"),
        "Roles of a Kafka process; must contain broker.",
        update=_FIXED,
    )
    producer_id_expiration_check_interval_ms: int = option(
        _INT, 600_000, at_least(1), "Interval at which idle producers are checked.", update=_FIXED, hidden=True
    )
    producer_id_expiration_ms: int = option(
        _INT, _DAY_MS, at_least(1), "Time after which the sequence numbers of an idle producer expire."
    )
    queued_max_request_bytes: int = option(
        _LONG, -1, None, "Maximum memory for requests, in bytes; not positive: no limit.", update=_FIXED
    )
    socket_listen_backlog_size: int = option(
        _INT,
        50,
        at_least(1),
        "Maximum number of connections waiting to be accepted; by default the limit of the system.",
        update=_FIXED,
    )
    socket_request_max_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Maximum request size in bytes.", update=_FIXED
    )
    telemetry_max_bytes: int = option(
        _INT, _MIB, at_least(1), "Maximum size of the metrics in one push of a client, in bytes.", update=_FIXED
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(
        _INT, 10_000, at_least(1), "Interval at which open transactions are checked for timeouts.", update=_FIXED
    )
    transaction_max_timeout_ms: int = option(
        _INT, 900_000, at_least(1), "Maximum transaction timeout that a producer may request.", update=_FIXED
    )
    transaction_partition_verification_enable: bool = option(
        _BOOLEAN, True, None, "Verify that a partition is part of the transaction before its first batch is appended."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(
        _INT, _HOUR_MS, at_least(1), "Interval at which transactional IDs are checked for expiration.", update=_FIXED
    )
    transaction_state_log_min_isr: int = option(
        _INT,
        2,
        at_least(1),
        "Replicas of __transaction_state that must be in sync for a write; limited to its replication factor.",
        update=_FIXED,
    )
    transaction_state_log_num_partitions: int = option(
        _INT, 50, at_least(1), "Number of partitions of __transaction_state.", update=_FIXED
    )
    transaction_state_log_replication_factor: int = option(
        _SHORT,
        3,
        at_least(1),
        "Replication factor of __transaction_state; limited to the number of nodes.",
        update=_FIXED,
    )
    transaction_state_log_segment_bytes: int = option(
        _INT, 100 * _MIB, at_least(1), "Segment size of __transaction_state.", update=_FIXED
    )
    transaction_two_phase_commit_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether a producer may request a transaction without timeout; requires InitProducerId 6, which is unstable.",
        update=_FIXED,
    )
    transactional_id_expiration_ms: int = option(
        _INT,
        7 * _DAY_MS,
        at_least(1),
        "Time after which a transactional ID without an open transaction expires.",
        update=_FIXED,
    )
    unstable_api_versions_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether to offer API versions that Apache Kafka 4.4.0 has not released: InitProducerId 6.",
        update=_FIXED,
        hidden=True,
    )
    unstable_feature_versions_enable: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether metadata.version may have the level that Apache Kafka 4.4.0 has not released.",
        update=_FIXED,
        hidden=True,
    )


def topic_default_options() -> Iterator[Option]:
    """Return the broker options that give topic options their defaults, e.g. log.retention.ms, .minutes and .hours.

    If several give one topic option its default, the strongest may change at run time, and the weakest has the default
    value.
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
    condition = f", if {stronger} is not set" if stronger else ""
    return f"Default of the topic option {topic.name}{unit}{condition}." + (
        "" if topic.acts else " Stored and shown, but has no effect."
    )


ACTED_ON: dict[str, Option] = options_of(BrokerOptions)
