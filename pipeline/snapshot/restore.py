"""Restore of a snapshot into a topic, with a stock producer: every key goes to the partition that it had.

A snapshot has one record per key, so the order of writes does not matter. Records keep their timestamps and
headers, and get new offsets. A repeat after an error writes some records twice, which compaction reduces to one.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..addresses import CONNECT_TIMEOUT_S, check_that_somebody_is_there
from ..errors import PipelineError, UsageError
from ..objects.addresses import parse_fs_options
from ..objects.object_files import ObjectFiles
from ..stores.reading_files import resolved
from .places import StoredSnapshot
from .snapshot_folder import REPLACED

NO_TOPIC = "{}: expected a topic to restore into, found none (--create makes it)"
NEW_TOPIC_CONFIGS = {"cleanup.policy": "compact"}
_OF_ANY_CLIENT = ("bootstrap", "security", "sasl", "ssl", "client", "socket", "api_version")
"""Prefixes of a producer's configs that an admin client also has."""
TIMEOUT_S = 120.0
"""Timeout of sent records, in seconds; longer than a broker's restart."""


class RestoreResult(NamedTuple):
    """Result of a restore."""

    topic: str
    records: int
    partitions: int


class Writer(ABC):
    """A producer. Everything that was sent is stored once `close` has returned."""

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._error: object = None
        """Error of the first record that was not stored."""

    @abstractmethod
    def send(self, row: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Wait for all records. Raises PipelineError if one was not stored."""

    def _delivered(self, error: object, _message: object = None) -> None:
        self._error = self._error or error


def restore(
    snapshot: str,
    topic: str,
    bootstrap_servers: str,
    *,
    producer_config: Mapping[str, str] | None = None,
    creates: bool = False,
    fs_options: Mapping[str, str] | None = None,
) -> RestoreResult:
    """Write all records of a snapshot into a topic.

    Args:
        producer_config: Options of librdkafka if confluent-kafka is installed, else of kafka-python. Its brokers are ignored.
        fs_options: Options of the store, if the snapshot has an address.
        creates: Create the topic if it does not exist: compacted, with as many partitions as the snapshot.

    Raises:
        UsageError: The snapshot does not exist, the topic has too few partitions, or no producer is installed.
        PipelineError: The broker did not accept a record.
    """
    stored = _opened(snapshot, fs_options or {})
    needed = stored.partitions()
    check_that_somebody_is_there(bootstrap_servers)
    known = needed if stored.manifest is None else needed | stored.manifest.partitions.keys()
    creates_with = max(known, default=0) + 1 if creates else None
    writer, partition_count = _writer(bootstrap_servers, topic, producer_config or {}, creates_with)
    records = 0
    try:
        if needed and max(needed) >= partition_count:
            raise UsageError(
                f"{topic}: expected partition {max(needed)}, which the snapshot has, found {partition_count} partitions"
            )
        for batch in stored.batches():
            for row in batch.to_pylist():
                writer.send(row)
                records += 1
    finally:
        writer.close()
    return RestoreResult(topic, records, len(needed))


def _opened(snapshot: str, fs_options: Mapping[str, str]) -> StoredSnapshot:
    try:
        stored = StoredSnapshot(snapshot, ObjectFiles(parse_fs_options(fs_options)))
    except (OSError, ValueError) as error:
        old = resolved(snapshot) + REPLACED
        hint = f"; {old} is the old one, left by a job that died while it replaced it" if os.path.isdir(old) else ""
        raise UsageError(f"{snapshot}: expected a snapshot, found none ({error}){hint}") from error
    wanted = ("key", "value", "partition", "offset", "timestamp")
    if missing := [name for name in wanted if name not in stored.names]:
        raise UsageError(f"{snapshot}: expected the columns {', '.join(wanted)}, found no {', '.join(missing)}")
    return stored


def timestamp_ms(row: Mapping[str, Any]) -> int | None:
    """Return a record's time; None if it has none."""
    if (found := row.get("timestampMs")) is not None:
        return int(found) if found >= 0 else None
    time = row["timestamp"]
    return None if time is None else round(time.timestamp() * 1000)


def _writer(
    bootstrap_servers: str, topic: str, config: Mapping[str, str], creates_with: int | None
) -> tuple[Writer, int]:
    """Return a producer, and the topic's number of partitions. A missing topic is created with `creates_with` partitions."""
    try:
        import confluent_kafka
    except ImportError:
        pass
    else:
        return _Confluent.opened(confluent_kafka, bootstrap_servers, topic, config, creates_with)
    try:
        import kafka
    except ImportError:
        raise UsageError("no producer is installed: pip install confluent-kafka, or kafka-python") from None
    return _KafkaPython.opened(kafka, bootstrap_servers, topic, config, creates_with)


class _Confluent(Writer):
    @classmethod
    def opened(
        cls, module: Any, servers: str, topic: str, config: Mapping[str, str], creates_with: int | None
    ) -> tuple[_Confluent, int]:
        known = {
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": round(TIMEOUT_S * 1000),
            **config,
            "bootstrap.servers": servers,
        }
        # librdkafka logs every attempt, many times a second: one line at the end is enough.
        silent = logging.getLogger("ottla.librdkafka")
        silent.setLevel(logging.CRITICAL + 1)
        try:
            producer = module.Producer(known, logger=silent)
        except module.KafkaException as error:
            raise UsageError(f"--producer-config: {error.args[0].str()}") from error
        try:
            # All topics, as a request for one may create it.
            found = producer.list_topics(timeout=CONNECT_TIMEOUT_S).topics.get(topic)
        except module.KafkaException as error:
            raise PipelineError(f"no broker answers at {servers}: {error.args[0].str()}") from error
        if found is None and creates_with is not None:
            cls._create(known, topic, creates_with, silent)
            return cls(producer, topic), creates_with
        if found is None:
            raise UsageError(NO_TOPIC.format(topic))
        if found.error is not None:
            raise UsageError(f"{topic}: expected a topic to restore into, found {found.error}")
        return cls(producer, topic), len(found.partitions)

    @staticmethod
    def _create(config: Mapping[str, Any], topic: str, partitions: int, silent: logging.Logger) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        known = {name: value for name, value in config.items() if name.startswith(_OF_ANY_CLIENT)}
        made = NewTopic(topic, partitions, -1, config=NEW_TOPIC_CONFIGS)
        admin = AdminClient(known, logger=silent)
        try:
            admin.create_topics([made], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
        except KafkaException as error:
            raise PipelineError(f"{topic} was not created: {error.args[0].str()}") from error

    def send(self, row: Mapping[str, Any]) -> None:
        optional = {} if (time := timestamp_ms(row)) is None else {"timestamp": time}
        headers = [(each["key"], each["value"]) for each in row.get("headers") or ()]
        while True:
            if self._error is not None:
                raise PipelineError(f"{self._topic}: {self._error}")
            try:
                self._producer.produce(
                    self._topic,
                    value=row["value"],
                    key=row["key"],
                    partition=row["partition"],
                    headers=headers,
                    on_delivery=self._delivered,
                    **optional,
                )
            except BufferError:
                self._producer.poll(1.0)
                continue
            self._producer.poll(0)
            return

    def close(self) -> None:
        left = self._producer.flush(0 if self._error is not None else TIMEOUT_S)
        if self._error is not None or left:
            raise PipelineError(
                f"{self._topic}: {self._error or f'{left} records were not stored within {TIMEOUT_S:.0f} s'}"
            )


class _KafkaPython(Writer):
    @classmethod
    def opened(
        cls, module: Any, servers: str, topic: str, config: Mapping[str, str], creates_with: int | None
    ) -> tuple[_KafkaPython, int]:
        options = {"acks": "all", **config, "bootstrap_servers": servers.split(",")}
        known = {name: value for name, value in options.items() if name.startswith(_OF_ANY_CLIENT)}
        try:
            cls._look_for(module, known, topic, creates_with)
            producer = module.KafkaProducer(**options)
            partitions = producer.partitions_for(topic)
        except module.errors.KafkaError as error:
            raise PipelineError(f"{servers}: {error!r}") from error
        return cls(producer, topic), len(partitions or ())

    @staticmethod
    def _look_for(module: Any, config: Mapping[str, Any], topic: str, creates_with: int | None) -> None:
        """Check that the topic exists, or create it. A producer's request would create it with the broker's defaults."""
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(**config)
        try:
            if topic in admin.list_topics():
                return
            if creates_with is None:
                raise UsageError(NO_TOPIC.format(topic))
            with suppress(module.errors.TopicAlreadyExistsError):
                admin.create_topics([NewTopic(topic, creates_with, -1, topic_configs=dict(NEW_TOPIC_CONFIGS))])
        finally:
            admin.close()

    def send(self, row: Mapping[str, Any]) -> None:
        sent = self._producer.send(
            self._topic,
            value=row["value"],
            key=row["key"],
            partition=row["partition"],
            headers=[(each["key"], each["value"]) for each in row.get("headers") or ()],
            timestamp_ms=timestamp_ms(row),
        )
        sent.add_errback(self._delivered)

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)
        self._producer.close()
        if self._error is not None:
            raise PipelineError(f"{self._topic}: {self._error!r}")
