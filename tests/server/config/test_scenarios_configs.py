"""Settings that are refused, over the wire and at the start, and records that a compacted topic refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.config.resources import ConfigResourceType
from ottla.server.config.static_config import static_config
from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError
from ottla.storage.topics.options import OptionType
from support.broker.admin import create, topic_names, wanted
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with ottla.Broker(str(tmp_path_factory.mktemp("data"))) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "there")
        yield client


NUMBERS = (OptionType.INT, OptionType.LONG, OptionType.DOUBLE)
# In these options −1 has a meaning.
MINUS_ONE_IS_FINE = {
    *("retention.ms", "retention.bytes", "local.retention.ms", "local.retention.bytes"),
    *("remote.copy.lag.bytes", "remote.copy.lag.ms", "ottla.key.retention.ms"),
    *("compression.gzip.level", "compression.zstd.level"),
}
REFUSED = [
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("min.cleanable.dirty.ratio", "1.2"),
    ("cleanup.policy", "true"),
    ("cleanup.policy", "foobar"),
    ("min.insync.replicas", "0"),
    ("local.retention.ms", "-3"),
    ("remote.copy.lag.ms", "-2"),
    ("remote.copy.lag.bytes", "-2"),
    ("local.retention.bytes", "-3"),
    ("compression.gzip.level", "-2"),
    ("compression.lz4.level", "-1"),
    ("compression.zstd.level", "-0.1"),
    ("preallocate", "not_a_boolean"),
    *((name, "not_a_number") for name, option in TOPIC_OPTIONS.items() if option.type in NUMBERS),
    *(
        (name, "-1")
        for name, option in TOPIC_OPTIONS.items()
        if option.type in NUMBERS and name not in MINUS_ONE_IS_FINE
    ),
]


def altered(client: RawClient, kind: ConfigResourceType, resource: str, name: str, value: str) -> int:
    changes = (AlterableConfig(name=name, value=value),)
    named = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=changes)
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(named,))).responses
    assert row.error_code == ErrorCode.NONE or name in row.error_message, row.error_message
    code: int = row.error_code
    return code


@pytest.mark.scenario(183)
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_an_invalid_value_is_refused_for_old_and_new_topics(shared: RawClient, name: str, value: str) -> None:
    (row,) = create(shared, wanted("new", configs={name: value}))
    assert row.error_code == ErrorCode.INVALID_CONFIG and name in row.error_message
    assert topic_names(shared) == {"there"}
    assert altered(shared, ConfigResourceType.TOPIC, "there", name, value) == ErrorCode.INVALID_CONFIG


@pytest.mark.scenario(184)
def test_a_minimum_lag_above_the_maximum_is_refused(shared: RawClient) -> None:
    lags = {"min.compaction.lag.ms": "200", "max.compaction.lag.ms": "100"}
    (row,) = create(shared, wanted("new", configs=lags))
    assert row.error_code == ErrorCode.INVALID_CONFIG
    with pytest.raises(ConfigError, match=r"log\.cleaner\.min\.compaction\.lag\.ms"):
        static_config(overrides={f"log.cleaner.{name}": value for name, value in lags.items()})


@pytest.mark.scenario(168, 185)
@pytest.mark.parametrize("policies", [("compact",), *permutations(("compact", "delete"))])
@pytest.mark.parametrize("separator", [",", ", ", " , "])
def test_remote_storage_is_refused_for_a_compacted_topic_in_any_notation(
    shared: RawClient, policies: tuple[str, ...], separator: str
) -> None:
    both = [("cleanup.policy", separator.join(policies)), ("remote.storage.enable", "true")]
    for configs in permutations(both):
        (row,) = create(shared, wanted("new", configs=dict(configs)))
        assert row.error_code == ErrorCode.INVALID_CONFIG and "remote.storage.enable" in row.error_message
    assert topic_names(shared) == {"there"}


@pytest.mark.scenario(186)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleaner.dedupe.buffer.size", "1024"),
        ("log.cleaner.threads", "-1"),
        ("log.cleaner.backoff.ms", "-1"),
        ("log.cleanup.policy", "unknown"),
        *(
            (f"log.cleaner.{name}", "not_a_number")
            for name in (
                *("threads", "dedupe.buffer.size", "io.buffer.size", "io.buffer.load.factor", "backoff.ms"),
                *("io.max.bytes.per.second", "min.cleanable.ratio", "delete.retention.ms"),
                *("min.compaction.lag.ms", "max.compaction.lag.ms"),
            )
        ),
    ],
)
def test_bad_settings_of_the_cleaner_are_refused_at_any_time(shared: RawClient, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        static_config(overrides={name: value})
    assert altered(shared, ConfigResourceType.BROKER, "", name, value) != ErrorCode.NONE


@pytest.mark.scenario(151)
@pytest.mark.parametrize(
    ("pairs", "codec", "refused"),
    [
        ([(None, "v"), ("k", "v")], 0, [0]),
        ([(None, "v")], 0, [0]),
        ([("k", "v"), (None, "v")], 1, [1]),
        ([("k", "v")], 0, []),
        ([("k", "v"), ("", "v")], 0, []),
        ([("k", "v"), ("k", None)], 1, []),
    ],
)
def test_a_compacted_topic_refuses_keyless_records_by_their_index_and_counts_them(
    tmp_path: Path, pairs: list[tuple[str | None, str | None]], codec: int, refused: list[int]
) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", cleanup_policy="compact")
        row = produce(client, "t", *pairs, codec=codec)
        assert row.error_code == (ErrorCode.INVALID_RECORD if refused else ErrorCode.NONE)
        assert [error.batch_index for error in row.record_errors] == refused
        name = "kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec#Count"
        assert broker.metrics()[name] == len(refused)
