"""What a cluster says of a topic before it is read: its partitions, from where to where they can be read, its configs.

Asked by Kafka's admin client in the driver's JVM, which the connector brings, so with the options that the executors have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError

from ..addresses import check_that_somebody_is_there
from ..apply.packages import is_loaded
from ..errors import PipelineError, ServiceFailedError, SourceChangedError, SparkFailedError, UsageError
from .cluster import WireCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}"
CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
ANSWER_TIMEOUT_MS = 20_000
"""For what a cluster is asked before it is read; `default.api.timeout.ms` and `request.timeout.ms` of a file win."""

_KAFKA = "org.apache.kafka.common."
_REFUSALS: Mapping[str, tuple[type[PipelineError], str]] = {
    "errors.UnknownTopicOrPartitionException": (UsageError, "there is no topic {topic}"),
    "errors.InvalidTopicException": (UsageError, "{topic} is no name of a topic"),
    "errors.TopicAuthorizationException": (UsageError, "not authorized to describe and read topic {topic}"),
    "errors.ClusterAuthorizationException": (UsageError, "not authorized: {said}"),
    "errors.SaslAuthenticationException": (UsageError, "not let in: {said}"),
    "errors.SslAuthenticationException": (UsageError, "not let in: {said}"),
    "errors.IllegalSaslStateException": (UsageError, "not let in: {said}"),
    "errors.UnsupportedSaslMechanismException": (UsageError, "not let in: {said}"),
    "errors.UnsupportedVersionException": (UsageError, "too old a Kafka: {said}"),
    "errors.TimeoutException": (
        ServiceFailedError,
        "no Kafka answers with these options ({said}); is it the address, security.protocol, or what it advertises?",
    ),
    "config.ConfigException": (UsageError, "the clients' options: {said}"),
    "KafkaException": (UsageError, "the clients' options: {said}"),
}
"""What Kafka's client throws, by its class -> what is said of it, and the exit code."""


_THROWN = re.compile(r"org\.apache\.kafka\.common\.([\w.]{1,60}Exception)(?:: ([^\n]*))?")
_LOST = re.compile(r"data may have been lost|KAFKA_DATA_LOSS|OffsetOutOfRange|OFFSET_OUT_OF_RANGE")


class Bounds(NamedTuple):
    """From where to where a partition can be read now."""

    start: int
    end: int
    """The last stable offset, exclusive."""


class WireTopic(NamedTuple):
    """A topic when it was asked about."""

    name: str
    partitions: Mapping[int, Bounds]
    configs: Mapping[str, str] | None
    """None where it is not allowed to read them."""


class KafkaTopics:
    """The topics of one cluster."""

    def __init__(self, spark: SparkSession, cluster: WireCluster) -> None:
        """
        Raises:
            UsageError: The session has no connector, or the options are none.
            ServiceFailedError: No connection is taken.
        """
        check_connector(spark)
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
        """Give the connections back."""
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def describe(self, topic: str) -> WireTopic:
        """
        Raises:
            UsageError: There is no such topic, or it may not be read.
            ServiceFailedError: No broker answers in time.
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
        """Of each partition, as ListOffsets says it; what is committed only.

        Args:
            spec: `earliest` or `latest`.
        """
        specs = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        return {each: found.offset() for each, found in self._listed(topic, partitions, getattr(specs, spec)())}

    def latest_times_ms(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The largest timestamp of each partition that has one."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.maxTimestamp()
        found = {each: found.timestamp() for each, found in self._listed(topic, partitions, spec)}
        return {each: time for each, time in found.items() if time >= 0}

    def offsets_for_time(self, topic: str, times_ms: Mapping[int, int]) -> dict[int, int]:
        """The first offset of each partition whose record is not earlier than its time; none for one that has no such record."""
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
        of = self._jvm.org.apache.kafka.common.config.ConfigResource
        resource = of(of.Type.TOPIC, topic)
        try:
            with self._errors(topic):
                found = self._admin.describeConfigs(self._jvm.java.util.Collections.singleton(resource)).all().get()
                return {each.name(): each.value() or "" for each in found.get(resource).entries().toArray()}
        except UsageError:  # DescribeConfigs is another right than Describe
            return None

    def keys_at(self, topic: str, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """The keys of the records at these (partition, offset); of one that is gone, or has none, nothing."""
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


def check_connector(spark: SparkSession) -> None:
    """
    Raises:
        UsageError: The session has no Kafka connector; says what to give.
    """
    if not is_loaded(spark, CONNECTOR_CLASS):
        jvm: Any = spark.sparkContext._jvm
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        coordinates = CONNECTOR.format(scala=scala, spark=spark.version)
        raise UsageError(
            f"Spark's Kafka connector is missing: give --conf spark.jars.packages={coordinates} (to spark-submit: --packages; or"
            " the newest that there is before this version)"
        )


@contextmanager
def reading_errors(places: str) -> Iterator[None]:
    """What Kafka's client throws in a task, as errors of a job.

    Args:
        places: The topics that are read, for people.

    Raises:
        SourceChangedError: Records went away while they were read.
        UsageError, ServiceFailedError: As of `KafkaTopics`.
        SparkFailedError: Another error.
    """
    try:
        yield
    except SparkFailedError as error:
        text = f"{error} {error.__cause__}"
        if _LOST.search(text):
            raise SourceChangedError(
                f"{places}: records went away while they were read, by retention or a deletion: call again"
            ) from error
        for name, said in _THROWN.findall(text):
            if (known := _REFUSALS.get(name)) is not None:
                kind, form = known
                raise kind(f"{places}: {form.format(topic=places, said=' '.join(said.split()))}") from error
        raise


def refusal(error: Py4JJavaError, bootstrap: str, topic: str) -> PipelineError:
    """What is said of an exception of Kafka's client: by its innermost cause that the table knows."""
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
    return ServiceFailedError(f"{bootstrap}: {': '.join(' '.join(each).strip() for each in chain)}")
