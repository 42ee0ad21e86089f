"""The cleaner's options at start and while the broker runs, row by row as a live Apache Kafka 4.3.1 answered.

Where Ottla refuses and Apache Kafka does not, the row says so.
"""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.config.broker_config import BrokerConfig, ConfigSource
from ottla.server.config.changes import ConfigChange, alter_broker
from ottla.server.config.options.broker_options import ACTED_ON
from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError
from ottla.storage.topics.options import UpdateMode
from support.noted import each_case

TAKEN, REFUSED = None, ErrorCode.INVALID_REQUEST

CHANGES = [
    ("log.cleaner.threads", "-1", REFUSED),
    ("log.cleaner.threads", "0", REFUSED),  # Kafka's text is "/ by zero"
    ("log.cleaner.threads", "2", TAKEN),
    ("log.cleaner.threads", "3", REFUSED),
    ("log.cleaner.dedupe.buffer.size", "1048576", REFUSED),
    ("log.cleaner.dedupe.buffer.size", "1048577", TAKEN),
    ("log.cleaner.dedupe.buffer.size", "5000000000", TAKEN),  # Kafka's threads then die for lack of memory
    ("log.cleaner.io.buffer.load.factor", "0", TAKEN),
    ("log.cleaner.io.buffer.load.factor", "-1", TAKEN),
    ("log.cleaner.io.buffer.load.factor", "1.5", TAKEN),
    ("log.cleaner.io.buffer.load.factor", "NaN", REFUSED),  # Kafka accepts it
    ("log.cleaner.io.buffer.size", "-1", REFUSED),
    ("log.cleaner.io.buffer.size", "0", TAKEN),
    ("log.cleaner.io.max.bytes.per.second", "-5", TAKEN),
    ("log.cleaner.io.max.bytes.per.second", "0", TAKEN),
    ("log.cleaner.io.max.bytes.per.second", "NaN", REFUSED),  # Kafka accepts it
    ("log.cleaner.io.max.bytes.per.second", "abc", REFUSED),
    ("log.cleaner.io.max.bytes.per.second", "50000000", TAKEN),
    ("log.cleaner.backoff.ms", "-1", REFUSED),
    ("log.cleaner.backoff.ms", "0", TAKEN),
    ("log.cleaner.enable", "false", REFUSED),
    ("log.cleaner.min.cleanable.ratio", "NaN", REFUSED),  # Kafka accepts it
    ("log.cleaner.min.cleanable.ratio", "1.1", REFUSED),
    ("log.cleaner.min.cleanable.ratio", "1", TAKEN),
    ("log.cleaner.delete.retention.ms", "-1", REFUSED),
    ("log.cleaner.min.compaction.lag.ms", "200", TAKEN),
    ("log.cleaner.max.compaction.lag.ms", "0", REFUSED),
    ("log.cleaner.max.compaction.lag.ms", "100", TAKEN),
    ("log.cleanup.policy", "compact,delete", TAKEN),
    ("log.cleanup.policy", "foo", REFUSED),
    ("message.max.bytes", "-1", REFUSED),
    ("message.max.bytes", "40000", TAKEN),
]


@pytest.mark.scenario(186)
@each_case("name, value, answer", CHANGES)
def test_a_change_applies_to_all_nodes(name: str, value: str, answer: ErrorCode | None) -> None:
    changes = [ConfigChange(name, value)]
    running = BrokerConfig.from_texts()
    if answer is TAKEN:
        assert alter_broker(running, ConfigSource.DYNAMIC_DEFAULT_BROKER, {}, changes) == {name: value}
    else:
        with pytest.raises(KafkaError) as refused:
            alter_broker(running, ConfigSource.DYNAMIC_DEFAULT_BROKER, {}, changes)
        assert refused.value.code == answer
        assert name in refused.value.message


@pytest.mark.parametrize(
    ("present", "wanted", "taken"),
    [(1, 1, True), (1, 2, True), (1, 3, False), (2, 1, True), (2, 5, False), (3, 1, True), (4, 1, False), (4, 2, True)],
)
def test_threads_double_or_halve_at_most(present: int, wanted: int, taken: bool) -> None:
    running = BrokerConfig.from_texts({"log.cleaner.threads": str(present)})
    changes = [ConfigChange("log.cleaner.threads", str(wanted))]
    if taken:
        alter_broker(running, ConfigSource.DYNAMIC_BROKER, {}, changes)
    else:
        with pytest.raises(KafkaError, match="half and double the current value"):
            alter_broker(running, ConfigSource.DYNAMIC_BROKER, {}, changes)


def test_the_memory_of_a_thread_is_checked_with_their_number() -> None:
    running = BrokerConfig.from_texts({"log.cleaner.dedupe.buffer.size": "3000000"})
    alter_broker(running, ConfigSource.DYNAMIC_BROKER, {}, [ConfigChange("log.cleaner.threads", "2")])
    small = BrokerConfig.from_texts({"log.cleaner.dedupe.buffer.size": "2097152"})
    with pytest.raises(KafkaError, match=r"greater than 1048576 for each of log\.cleaner\.threads=2"):
        alter_broker(small, ConfigSource.DYNAMIC_BROKER, {}, [ConfigChange("log.cleaner.threads", "2")])


@pytest.mark.parametrize(
    ("name", "value"), [("log.cleaner.threads", "0"), ("log.cleaner.dedupe.buffer.size", "1048576")]
)
def test_a_start_without_threads_or_memory_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.from_texts({name: value})


def test_cleaner_options_that_may_change_at_run_time_are_listed() -> None:
    """All options except `log.cleaner.enable` may change; those with a topic option are its defaults."""
    own = {name: option.update for name, option in ACTED_ON.items() if name.startswith("log.cleaner.")}
    assert own.pop("log.cleaner.enable") is UpdateMode.READ_ONLY
    assert set(own.values()) == {UpdateMode.CLUSTER_WIDE} and len(own) == 6
    defaults = {synonym.name for option in TOPIC_OPTIONS.values() for synonym in option.synonyms[:1]}
    assert {
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleanup.policy",
        "message.max.bytes",
    } <= defaults
