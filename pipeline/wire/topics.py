"""Metadata of a topic before it is read: its partitions, their readable offsets, its configs.

The requests use Kafka's admin client in the driver's JVM, from the connector's jars, so with the executors' options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError

from ..addresses import check_that_somebody_is_there
from ..apply.packages import check_packages
from ..apply.topics import topic_configs
from ..errors import ExitCode, PipelineError, SourceChangedError, UsageError
from .cluster import WireCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_TIMEOUT_MS = 20_000
"""Timeout of requests before the read; `default.api.timeout.ms` and `request.timeout.ms` of a file take precedence."""

_KAFKA = "org.apache.kafka.common."
_REFUSALS: Mapping[str, tuple[type[PipelineError], str]] = {
    "errors.UnknownTopicOrPartitionException": (UsageError, "topic {topic} not found"),
    "errors.InvalidTopicException": (UsageError, "{topic} is not a valid topic name"),
    "errors.TopicAuthorizationException": (UsageError, "not authorized to describe and read topic {topic}"),
    "errors.ClusterAuthorizationException": (UsageError, "not authorized: {said}"),
    "errors.SaslAuthenticationException": (UsageError, "authentication failed: {said}"),
    "errors.SslAuthenticationException": (UsageError, "authentication failed: {said}"),
    "errors.IllegalSaslStateException": (UsageError, "authentication failed: {said}"),
    "errors.UnsupportedSaslMechanismException": (UsageError, "authentication failed: {said}"),
    "errors.UnsupportedVersionException": (UsageError, "this Kafka is too old: {said}"),
    "errors.TimeoutException": (
        PipelineError,
        "no Kafka answers with these options ({said}); check the address, security.protocol, and the advertised listeners",
    ),
    "config.ConfigException": (UsageError, "invalid client options: {said}"),
    "KafkaException": (UsageError, "invalid client options: {said}"),
}
"""Class of an exception of Kafka's client -> the class and the text of the job's error."""


_THROWN = re.compile(r"org\.apache\.kafka\.common\.([\w.]{1,60}Exception)(?:: ([^\n]*))?")
_LOST = re.compile(r"data may have been lost|KAFKA_DATA_LOSS|OffsetOutOfRange|OFFSET_OUT_OF_RANGE")


class Bounds(NamedTuple):
    """Readable offsets of a partition."""

    start: int
    end: int
    """The last stable offset (exclusive)."""


class WireTopic(NamedTuple):
    """Metadata of a topic at one moment."""

    name: str
    partitions: Mapping[int, Bounds]
    configs: Mapping[str, str] | None
    """Configs; None if the client may not read them."""


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, spark: SparkSession, cluster: WireCluster) -> None:
        """
        Raises:
            UsageError: The session has no connector, or the options are invalid.
            PipelineError: No broker accepts a connection.
        """
        check_packages(spark, ["kafka"])
        check_that_somebody_is_there(cluster.bootstrap)
        self._cluster = cluster
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        given = jvm.java.util.Properties()
        for name, value in cluster.asked_config(ANSWER_TIMEOUT_MS).items():
            given.setProperty(name, value)
        with self._errors(""):
            self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(given)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def describe(self, topic: str) -> WireTopic:
        """Return a topic's metadata.

        Raises:
            UsageError: The topic does not exist, or may not be read.
            PipelineError: No broker answers in time.
        """
        ids = self._partitions(topic)
        start, end = self.offsets(topic, ids, "earliest"), self.offsets(topic, ids, "latest")
        return WireTopic(
            topic, {each: Bounds(start[each], max(start[each], end[each])) for each in ids}, self._configs(topic)
        )

    def _partitions(self, topic: str) -> list[int]:
        with self._errors(topic):
            names = self._jvm.java.util.Collections.singleton(topic)
            found = self._admin.describeTopics(names).allTopicNames().get().get(topic)
            return sorted(each.partition() for each in found.partitions())

    def offsets(self, topic: str, partitions: Sequence[int], spec: str) -> dict[int, int]:
        """Return the offset of each partition, as in ListOffsets; only committed data counts.

        Args:
            spec: `earliest` or `latest`.
        """
        specs = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        return {each: found.offset() for each, found in self._listed(topic, partitions, getattr(specs, spec)())}

    def latest_times_ms(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return the largest timestamp of each partition that has one."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.maxTimestamp()
        found = {each: found.timestamp() for each, found in self._listed(topic, partitions, spec)}
        return {each: time for each, time in found.items() if time >= 0}

    def offsets_for_time(self, topic: str, times_ms: Mapping[int, int]) -> dict[int, int]:
        """Return for each partition the first offset whose record is not earlier than its time, if it has one."""
        found = {}
        for partition, time_ms in times_ms.items():
            spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.forTimestamp(time_ms)
            for each, at in self._listed(topic, [partition], spec):
                if at.offset() >= 0:
                    found[each] = at.offset()
        return found

    def _listed(self, topic: str, partitions: Sequence[int], spec: Any) -> list[tuple[int, Any]]:
        with self._errors(topic):
            jvm, wanted = self._jvm, self._jvm.java.util.HashMap()
            places = {each: jvm.org.apache.kafka.common.TopicPartition(topic, each) for each in partitions}
            for place in places.values():
                wanted.put(place, spec)
            committed = jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
            options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(committed)
            found = self._admin.listOffsets(wanted, options).all().get()
            return [(each, found.get(place)) for each, place in places.items()]

    def _configs(self, topic: str) -> dict[str, str] | None:
        try:
            with self._errors(topic):
                return topic_configs(self._jvm, self._admin, topic)
        except UsageError:  # DescribeConfigs is a separate permission from Describe
            return None

    def keys_at(self, topic: str, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """Return the keys of the records at these (partition, offset). Deleted records and those without a key are left out."""
        jvm = self._jvm
        bytes_read = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        given = jvm.java.util.Properties()
        own = {"key.deserializer": bytes_read, "value.deserializer": bytes_read, "enable.auto.commit": "false"}
        own |= {"isolation.level": "read_committed", "max.poll.records": "1", "auto.offset.reset": "none"}
        for name, value in (self._cluster.client_config() | own).items():
            given.setProperty(name, value)
        found = {}
        with self._errors(topic):
            consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(given)
            try:
                for partition, offset in places:
                    place = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
                    consumer.assign(jvm.java.util.Collections.singletonList(place))
                    consumer.seek(place, offset)
                    for record in consumer.poll(jvm.java.time.Duration.ofMillis(ANSWER_TIMEOUT_MS)).records(place):
                        if record.offset() == offset and record.key() is not None:
                            found[partition, offset] = bytes(record.key())
            finally:
                consumer.close()
        return found

    @contextmanager
    def _errors(self, topic: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise refusal(error, self._cluster.bootstrap, topic) from error


@contextmanager
def reading_errors(places: str) -> Iterator[None]:
    """Convert errors of Kafka's client in a task to those of a job.

    Args:
        places: The topics that are read, for people.

    Raises:
        SourceChangedError: Records were deleted during the read.
        UsageError: As of `KafkaTopics`.
        PipelineError: Another error.
    """
    try:
        yield
    except PipelineError as error:
        if error.exit_code is not ExitCode.FAILED:
            raise
        text = f"{error} {error.__cause__}"
        if _LOST.search(text):
            raise SourceChangedError(
                f"{places}: records were deleted while they were read, by retention or a deletion: call again"
            ) from error
        for name, said in _THROWN.findall(text):
            if (known := _REFUSALS.get(name)) is not None:
                kind, form = known
                raise kind(f"{places}: {form.format(topic=places, said=' '.join(said.split()))}") from error
        raise


def refusal(error: Py4JJavaError, bootstrap: str, topic: str) -> PipelineError:
    """Convert an exception of Kafka's client by the first cause that the table has."""
    chain: list[tuple[str, str]] = []
    cause: Any = error.java_exception
    while cause is not None and len(chain) < 10:
        chain.append((cause.getClass().getName(), cause.getMessage() or ""))
        cause = cause.getCause()
    for name, _ in chain:
        if (known := _REFUSALS.get(name.removeprefix(_KAFKA))) is not None:
            kind, text = known
            said = " ".join((chain[-1][1] or chain[-1][0]).split())
            return kind(f"{bootstrap}: {text.format(topic=topic, said=said)}")
    return PipelineError(f"{bootstrap}: {': '.join(' '.join(each).strip() for each in chain)}")
