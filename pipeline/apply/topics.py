"""Current state of a topic: its id, its partitions, and their first and last offsets.

For a running Kafka it comes from the admin client in the jar of Spark's connector, with the connector's own `kafka.` options;
for a data directory from its files. It lets a job detect, before it reads a record, that a topic was recreated or has lost
records that are not in the table yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ...storage.disk import paths
from ...storage.disk.checkpoints import uuid_text
from ...storage.topics.versions import BY_OFFSET, STRATEGY
from ..addresses import check_that_somebody_is_there
from ..errors import CorruptSourceError, PipelineError, SourceChangedError, UsageError
from ..source.reading import LogReader
from ..stores.segment_names import topic_id_in
from ..stores.stores import opened_store
from .state import AppliedState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_MS = 60_000
"""Timeout for a broker that accepts connections: a JVM on a busy machine may need half a minute before its first request."""


class TopicNow(NamedTuple):
    """State of a topic.

    spans: Partition -> (its first offset, the offset after its last committed one).
    size_bytes: Size of its logs, as they are stored; None if unknown.
    strategy: Value of STRATEGY: which record of a key it keeps (KIP-280). BY_OFFSET if its configs may not, or cannot, be read.
    """

    name: str
    topic_id: str | None
    spans: Mapping[int, tuple[int, int]]
    size_bytes: int | None = None
    strategy: str = BY_OFFSET

    def ends(self) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.spans.items()}

    def offsets_from(self, starting: Mapping[int, int]) -> int:
        """Return the number of offsets from these on; -2 is a partition's beginning."""
        return sum(max(0, end - max(first, starting[partition])) for partition, (first, end) in self.spans.items())


def topic_id_of_directory(data_dir: str, topic: str) -> str | None:
    """Read a topic's id from a broker's files. UsageError: the topic is not found."""
    store = opened_store(data_dir)
    first = store.topic_partitions(topic)[0]
    of_first = store.store_of(first)
    topic_id = topic_id_in(of_first.files, of_first.directory_of(first))
    return None if topic_id is None else uuid_text(topic_id)


def topic_of_directory(data_dir: str, topic: str) -> TopicNow:
    """Read a topic's id, partitions and offsets from a broker's files. UsageError: the topic is not found."""
    stores = opened_store(data_dir)
    logs, spans, size_bytes = LogReader(stores, committed=True), {}, 0
    for tp in stores.topic_partitions(topic):
        found = logs.bounds(tp, None)
        spans[tp.partition] = found.start_offset, found.end_offset
        store = stores.store_of(tp)
        names = store.files.list(directory := store.directory_of(tp))
        size_bytes += sum(store.files.size(paths.join(directory, name)) for name in names if name.endswith(paths.LOG))
    strategy = BY_OFFSET
    with suppress(UsageError, CorruptSourceError):  # the catalog is elsewhere, or cannot be read
        strategy = stores.stores[0].home.config_of(topic).ottla_compaction_strategy
    return TopicNow(topic, topic_id_of_directory(data_dir, topic), spans, size_bytes, strategy)


def topic_id_of_kafka(session: SparkSession, topic: str, options: Mapping[str, str]) -> str | None:
    """Ask a Kafka for a topic's id, and wait for a broker that restarts. Arguments and errors are those of `topic_of_kafka`."""
    with _admin_client(session, topic, options) as (_, admin):
        return _id_of(_described(session, admin, topic))


def topic_of_kafka(session: SparkSession, topic: str, options: Mapping[str, str]) -> TopicNow:
    """Ask a Kafka for a topic's id, partitions and offsets.

    Args:
        options: Options of Kafka's clients, with `bootstrap.servers`.

    Raises:
        UsageError: The topic is not found, or a client's option is wrong.
        PipelineError: No broker answers, or the broker refuses the request.
    """
    check_that_somebody_is_there(options["bootstrap.servers"])
    isolation = options.get("isolation.level", "read_uncommitted")
    with _admin_client(session, topic, options) as (jvm, admin):
        described = _described(session, admin, topic)
        numbers = sorted(each.partition() for each in described.partitions())
        spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
        first = _offsets(jvm, admin, topic, numbers, spec.earliest(), isolation)
        last = _offsets(jvm, admin, topic, numbers, spec.latest(), isolation)
        spans = {each: (first[each], last[each]) for each in numbers}
        size_bytes = _size_bytes(jvm, admin, described)
        return TopicNow(topic, _id_of(described), spans, size_bytes, _strategy(jvm, admin, topic))


def _id_of(described: Any) -> str | None:
    """Return the topic's id; None if the broker has no topic ids and answers with zeros (KIP-516)."""
    found = described.topicId()
    return None if not found.getMostSignificantBits() and not found.getLeastSignificantBits() else found.toString()


def _described(session: SparkSession, admin: Any, topic: str) -> Any:
    jvm: Any = session._jvm
    return admin.describeTopics(jvm.java.util.Collections.singletonList(topic)).allTopicNames().get().get(topic)


@contextmanager
def _admin_client(session: SparkSession, topic: str, options: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
    """Yield the JVM and an admin client of Kafka, and convert the client's errors."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = session._jvm
    asked = {**options, "default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": str(TIMEOUT_MS)}
    for name in ("isolation.level", "max.poll.records", "group.id"):
        asked.pop(name, None)
    properties = jvm.java.util.HashMap()
    for name, value in asked.items():
        properties.put(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    except Py4JJavaError as error:
        raise UsageError(f"--bootstrap, --kafka-config: {reason(error)}") from error
    try:
        yield jvm, admin
    except Py4JJavaError as error:
        said = reason(error)
        if "UnknownTopicOrPartition" in said:
            raise UsageError(f"{topic}: expected a topic of {options['bootstrap.servers']}, found none") from error
        if "InvalidTopic" in said:
            raise UsageError(f"{topic}: {said}") from error
        raise PipelineError(f"Kafka at {options['bootstrap.servers']}: {said}") from error
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(2))


def _offsets(jvm: Any, admin: Any, topic: str, numbers: list[int], spec: Any, isolation: str) -> dict[int, int]:
    wanted = jvm.java.util.HashMap()
    places = {number: jvm.org.apache.kafka.common.TopicPartition(topic, number) for number in numbers}
    for place in places.values():
        wanted.put(place, spec)
    level = jvm.org.apache.kafka.common.IsolationLevel.valueOf(isolation.upper())
    options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
    found = admin.listOffsets(wanted, options).all().get()
    return {number: found.get(place).offset() for number, place in places.items()}


def _size_bytes(jvm: Any, admin: Any, described: Any) -> int | None:
    """Return the size of the leaders' logs; None if the user may not describe them, or the broker is too old."""
    from py4j.protocol import Py4JJavaError

    leaders = {each.partition(): each.leader().id() for each in described.partitions() if each.leader() is not None}
    brokers = jvm.java.util.ArrayList()
    for each in sorted(set(leaders.values())):
        brokers.add(each)
    try:
        found = admin.describeLogDirs(brokers).allDescriptions().get()
    except Py4JJavaError:
        return None
    size_bytes = 0
    for number, leader in leaders.items():
        place = jvm.org.apache.kafka.common.TopicPartition(described.name(), number)
        for directory in found.get(leader).values():
            replica = directory.replicaInfos().get(place)
            size_bytes += 0 if replica is None else replica.size()
    return size_bytes


def _strategy(jvm: Any, admin: Any, topic: str) -> str:
    """Return the topic's STRATEGY; BY_OFFSET if the broker has no such option, or the user may not describe configs."""
    from py4j.protocol import Py4JJavaError

    try:
        return topic_configs(jvm, admin, topic).get(STRATEGY, BY_OFFSET)
    except Py4JJavaError as error:
        if "AuthorizationException" in reason(error):
            return BY_OFFSET
        raise


def topic_configs(jvm: Any, admin: Any, topic: str) -> dict[str, str]:
    """Ask a Kafka for the topic's configs. Py4JJavaError: refused, or no answer."""
    kind = jvm.org.apache.kafka.common.config.ConfigResource
    place = kind(kind.Type.TOPIC, topic)
    found = admin.describeConfigs(jvm.java.util.Collections.singleton(place)).all().get().get(place)
    return {each.name(): each.value() or "" for each in found.entries().toArray()}


def reason(error: Any) -> str:
    """Return the innermost cause of a Java exception, its class and message, in one line."""
    found = error.java_exception
    while (cause := found.getCause()) is not None:
        found = cause
    kind = found.getClass().getSimpleName()
    return " ".join(f"{kind}: {found.getMessage()}".split())


def check_topic_id(topic: str, expected: str | None, found: str | None) -> None:
    """Compare a topic's id with the one whose records are in the table. None is unknown.

    Raises:
        SourceChangedError: They differ: the topic was deleted and created again.
    """
    if expected is not None and found is not None and expected != found:
        raise SourceChangedError(
            f"{topic}: expected topic id {expected} of the table, found {found}: the topic was deleted and created"
            " again (--topic-made-anew applies the new one from its beginning)"
        )


def starting_offsets(now: TopicNow, state: AppliedState, *, takes_losses: bool) -> dict[int, int]:
    """Return the starting offset of each partition; -2 is its beginning.

    Args:
        takes_losses: Records that the topic no longer has are given up.

    Raises:
        SourceChangedError: The topic is not that of the table, or has lost records that are not in the table yet.
    """
    check_topic_id(now.name, state.topic_id, now.topic_id)
    found = {}
    for partition, (first, end) in now.spans.items():
        offset = state.offsets.get(partition)
        if offset is None:
            found[partition] = -2
            continue
        lost = ""
        if offset < first:
            lost = f"expected records from the table's position {offset} on, found them only from offset {first} on"
        elif offset > end:
            lost = f"expected records up to the table's position {offset}, found the log's end at offset {end}"
        if lost and not takes_losses:
            raise SourceChangedError(f"{now.name}-{partition}: {lost} (--take-losses continues from there)")
        found[partition] = max(first, min(offset, end))
    return found
