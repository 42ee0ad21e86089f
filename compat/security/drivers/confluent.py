"""confluent-kafka, and librdkafka with it, a line at a time."""

from __future__ import annotations

import re
import time
from concurrent.futures import Future
from typing import Any

from .serving import Line, Refused, Unsupported, missing, serve

try:
    import confluent_kafka
    from confluent_kafka import (
        Consumer,
        ConsumerGroupTopicPartitions,
        ElectionType,
        KafkaError,
        KafkaException,
        Producer,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka import admin as a
except ImportError:
    missing("confluent-kafka")

# They have no other names.
NO_TIME_MENDS = KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FATAL
NO_BROKER = KafkaError._ALL_BROKERS_DOWN
"""The broker is the only one, so the client reports this error when that broker has refused it."""
WHY_S = 0.3
"""The time in which the reason may follow the error."""
POLL_S = 0.02
GROUP_TIMES = 4
"""The factor of the time-out for a consumer in a group, which joins by several calls."""
SESSION_MS = 6_000
"""The lowest session time-out. A commit also waits this long for a coordinator that it may not find."""
OPTIONS = {
    "bootstrap.servers": "bootstrap",
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
}


class Confluent:
    """The admin client of one login, and the options of its producers and consumers."""

    def __init__(self, line: Line) -> None:
        self.timeout_s = line["timeout_ms"] / 1000
        if line.get("is_token_login"):
            raise Unsupported("logins by delegation tokens")
        self.errors: list[Any] = []
        self._down_since_s = 0.0
        self.options: dict[str, Any] = {name: line[key] for name, key in OPTIONS.items() if key in line}
        self.options |= {
            "error_cb": self.errors.append,
            "log_level": 0,
            "socket.timeout.ms": line["timeout_ms"],
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
        }
        if "token" in line:
            token = line["token"]
            self.options["oauth_cb"] = lambda _: (token, time.time() + 3600)
        self._admin: Any = None

    @property
    def admin(self) -> Any:
        if self._admin is None:
            self._admin = a.AdminClient(self.options)
        return self._admin

    def look(self) -> None:
        """Refused, if something has happened that no time mends."""
        for error in self.errors:
            if error.code() in NO_TIME_MENDS:
                raise Refused(*_told(error), detail=str(self.errors))
        if not any(error.code() == NO_BROKER for error in self.errors):
            return
        self._down_since_s = self._down_since_s or time.monotonic()
        if time.monotonic() > self._down_since_s + WHY_S:
            raise Refused("_ALL_BROKERS_DOWN", detail=str(self.errors))

    def all(self, futures: Any) -> list[Any]:
        """Return results of calls of the admin client."""
        waited = list(futures.values()) if isinstance(futures, dict) else [futures]
        return [self.one(future) for future in waited]

    def one(self, future: Future[Any]) -> Any:
        deadline_s = time.monotonic() + self.timeout_s + 2
        while not future.done():
            self.admin.poll(POLL_S)
            self.look()
            if time.monotonic() > deadline_s:
                raise Refused("no outcome")
        return future.result()

    def producer(self, **more: Any) -> Any:
        timeout_ms = int(self.timeout_s * 1000)
        limits = {"message.timeout.ms": timeout_ms, "linger.ms": 0, "enable.idempotence": False}
        if "transactional.id" in more:
            limits = {"transaction.timeout.ms": 10_000, "linger.ms": 0}
        return Producer(self.options | limits | more)

    def consumer(self, group: str = "unused", **more: Any) -> Any:
        limits = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "group.id": group}
        if "group.protocol" not in more:
            limits["session.timeout.ms"] = SESSION_MS
        return Consumer(self.options | limits | more)

    def close(self) -> None:
        self._admin = None


def _told(error: Any) -> tuple[str, str]:
    name = str(error.name())
    if name != "_AUTHENTICATION":
        return name, ""
    said = re.sub(r" \(after \d+ms.*", "", error.str() or "")
    return name, re.sub(r"^\S+: (SASL authentication error: )?", "", said)


def told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return _told(error.args[0])
    if isinstance(error, KafkaError):
        return _told(error)
    return type(error).__name__, ""


# -- clients of records


def metadata(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_topics(TopicCollection([given["topic"]]), request_timeout=session.timeout_s))


def _sent(producer: Any, session: Confluent, topic: str) -> None:
    outcomes: list[Any] = []
    producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    deadline_s = time.monotonic() + session.timeout_s + 2
    while not outcomes and time.monotonic() < deadline_s:
        producer.poll(POLL_S)
        session.look()
    if not outcomes:
        raise Refused("no outcome")
    if outcomes[0]:
        raise KafkaException(outcomes[0])


def _produce(session: Confluent, given: Line, **more: Any) -> None:
    producer = session.producer(**more)
    _sent(producer, session, given["topic"])


def produce(session: Confluent, given: Line) -> None:
    _produce(session, given, acks=1)


def produce_acks_all(session: Confluent, given: Line) -> None:
    _produce(session, given, acks="all")


def produce_idempotent(session: Confluent, given: Line) -> None:
    _produce(session, given, **{"enable.idempotence": True})


def _transactional(session: Confluent, given: Line) -> Any:
    producer = session.producer(**{"transactional.id": given["transactional_id"]})
    producer.init_transactions(session.timeout_s)
    return producer


def init_transactions(session: Confluent, given: Line) -> None:
    _transactional(session, given)


def produce_transactional(session: Confluent, given: Line) -> None:
    producer = _transactional(session, given)
    producer.begin_transaction()
    _sent(producer, session, given["topic"])
    producer.commit_transaction(session.timeout_s)


def abort_transactional(session: Confluent, given: Line) -> None:
    producer = _transactional(session, given)
    producer.begin_transaction()
    _sent(producer, session, given["topic"])
    producer.abort_transaction(session.timeout_s)


def send_offsets(session: Confluent, given: Line) -> None:
    producer = _transactional(session, given)
    producer.begin_transaction()
    consumer = session.consumer(given["group"])
    try:
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(given["topic"], 0, 1)], group, session.timeout_s)
        producer.commit_transaction(session.timeout_s)
    finally:
        consumer.close()


def _polled(consumer: Any, session: Confluent, passed_by: tuple[int, ...] = (), times: int = 1) -> None:
    deadline_s = time.monotonic() + times * session.timeout_s
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.1)
        session.look()
        if message is not None and not (message.error() and message.error().code() in passed_by):
            if message.error():
                raise KafkaException(message.error())
            return
    raise Refused("no record")


def consume(session: Confluent, given: Line) -> None:
    consumer = session.consumer()
    try:
        consumer.assign([TopicPartition(given["topic"], 0, 0)])
        # The client looks for a coordinator that it does not need, and may not have its answer when the record arrives.
        _polled(consumer, session, (KafkaError.GROUP_AUTHORIZATION_FAILED,))
    finally:
        consumer.close()


def end_offsets(session: Confluent, given: Line) -> None:
    consumer = session.consumer()
    try:
        consumer.get_watermark_offsets(TopicPartition(given["topic"], 0), timeout=session.timeout_s)
    finally:
        consumer.close()


def offsets_for_times(session: Confluent, given: Line) -> None:
    consumer = session.consumer()
    try:
        _parts(consumer.offsets_for_times([TopicPartition(given["topic"], 0, 0)], timeout=session.timeout_s))
    finally:
        consumer.close()


def _parts(partitions: Any) -> None:
    for each in partitions:
        if each.error:
            raise KafkaException(each.error)


def consume_in_group(session: Confluent, given: Line, **more: Any) -> None:
    consumer = session.consumer(given["group"], **more)
    try:
        consumer.subscribe([given["topic"]])
        _polled(consumer, session, times=GROUP_TIMES)
        _parts(consumer.commit(asynchronous=False))
    finally:
        consumer.close()


def consume_in_group_consumer_protocol(session: Confluent, given: Line) -> None:
    consume_in_group(session, given, **{"group.protocol": "consumer"})


def commit(session: Confluent, given: Line) -> None:
    consumer = session.consumer(given["group"])
    try:
        _parts(consumer.commit(offsets=[TopicPartition(given["topic"], 0, 1)], asynchronous=False))
    finally:
        consumer.close()


def committed(session: Confluent, given: Line) -> None:
    consumer = session.consumer(given["group"])
    try:
        found = consumer.committed([TopicPartition(given["topic"], 0)], timeout=session.timeout_s)
        _parts(found)
        if found[0].offset < 0:
            raise Refused("missing")
    finally:
        consumer.close()


# -- the admin client


def create_topics(session: Confluent, given: Line, **more: Any) -> None:
    session.all(session.admin.create_topics([a.NewTopic(given["topic"], 1, 1)], **more))


def create_topics_validate_only(session: Confluent, given: Line) -> None:
    create_topics(session, given, validate_only=True)


def create_partitions(session: Confluent, given: Line) -> None:
    session.all(session.admin.create_partitions([a.NewPartitions(given["topic"], 3)]))


def delete_topics(session: Confluent, given: Line) -> None:
    session.all(session.admin.delete_topics([given["topic"]]))


def delete_records(session: Confluent, given: Line) -> None:
    session.all(session.admin.delete_records([TopicPartition(given["topic"], 0, 1)], request_timeout=session.timeout_s))


def list_topics(session: Confluent, given: Line) -> None:
    session.admin.list_topics(timeout=session.timeout_s)


def list_offsets(session: Confluent, given: Line) -> None:
    asked = {TopicPartition(given["topic"], 0): a.OffsetSpec.latest()}
    session.all(session.admin.list_offsets(asked, request_timeout=session.timeout_s))


def elect_leaders(session: Confluent, given: Line) -> None:
    partitions = [TopicPartition(given["topic"], 0)]
    (found,) = session.all(session.admin.elect_leaders(ElectionType.PREFERRED, partitions))
    for error in found.values():
        if error:
            raise KafkaException(error)


def _resource(kind: Any, name: str, **more: Any) -> Any:
    return a.ConfigResource(kind, name, **more)


def describe_configs(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_configs([_resource(a.ResourceType.TOPIC, given["topic"])]))


def describe_broker_configs(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_configs([_resource(a.ResourceType.BROKER, "0")]))


def describe_group_configs(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_configs([_resource(a.ResourceType.GROUP, given["group"])]))


def _altered(session: Confluent, kind: Any, name: str, option: str, value: str) -> None:
    entry = a.ConfigEntry(option, value, incremental_operation=a.AlterConfigOpType.SET)
    session.all(session.admin.incremental_alter_configs([_resource(kind, name, incremental_configs=[entry])]))


def alter_configs(session: Confluent, given: Line) -> None:
    _altered(session, a.ResourceType.TOPIC, given["topic"], "retention.ms", "1000000")


def alter_configs_whole(session: Confluent, given: Line) -> None:
    resource = _resource(a.ResourceType.TOPIC, given["topic"], set_config={"retention.ms": "1000000"})
    session.all(session.admin.alter_configs([resource]))


def alter_broker_configs(session: Confluent, given: Line) -> None:
    _altered(session, a.ResourceType.BROKER, "0", "log.cleaner.threads", "1")


def alter_group_configs(session: Confluent, given: Line) -> None:
    _altered(session, a.ResourceType.GROUP, given["group"], "consumer.session.timeout.ms", "45000")


def list_groups(session: Confluent, given: Line) -> None:
    (found,) = session.all(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
    for error in found.errors:
        raise error


def describe_groups(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_consumer_groups([given["group"]], request_timeout=session.timeout_s))


def delete_groups(session: Confluent, given: Line) -> None:
    session.all(session.admin.delete_consumer_groups([given["group"]], request_timeout=session.timeout_s))


def list_group_offsets(session: Confluent, given: Line) -> None:
    asked = [ConsumerGroupTopicPartitions(given["group"], [TopicPartition(given["topic"], 0)])]
    for found in session.all(session.admin.list_consumer_group_offsets(asked, request_timeout=session.timeout_s)):
        _parts(found.topic_partitions)


def alter_group_offsets(session: Confluent, given: Line) -> None:
    asked = [ConsumerGroupTopicPartitions(given["group"], [TopicPartition(given["topic"], 0, 0)])]
    for found in session.all(session.admin.alter_consumer_group_offsets(asked, request_timeout=session.timeout_s)):
        _parts(found.topic_partitions)


def describe_cluster(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_cluster(request_timeout=session.timeout_s))


def create_acls(session: Confluent, given: Line) -> None:
    kinds = a.ResourceType.TOPIC, "none", a.ResourcePatternType.LITERAL
    acl = a.AclBinding(*kinds, "User:nobody", "*", a.AclOperation.READ, a.AclPermissionType.ALLOW)
    session.all(session.admin.create_acls([acl]))


def _filter(principal: str | None = None) -> Any:
    kinds = a.ResourceType.TOPIC, "none", a.ResourcePatternType.LITERAL
    return a.AclBindingFilter(*kinds, principal, None, a.AclOperation.ANY, a.AclPermissionType.ANY)


def describe_acls(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_acls(_filter()))


def delete_acls(session: Confluent, given: Line) -> None:
    session.all(session.admin.delete_acls([_filter("User:nobody-else")]))


def describe_scram_users(session: Confluent, given: Line) -> None:
    session.all(session.admin.describe_user_scram_credentials())


def alter_scram_users(session: Confluent, given: Line) -> None:
    info = a.ScramCredentialInfo(a.ScramMechanism.SCRAM_SHA_256, 4096)
    session.all(session.admin.alter_user_scram_credentials([a.UserScramCredentialUpsertion("made", info, b"secret")]))


ACTIONS = {
    action.__name__: action
    for action in (
        metadata,
        produce,
        produce_acks_all,
        produce_idempotent,
        init_transactions,
        produce_transactional,
        abort_transactional,
        send_offsets,
        consume,
        end_offsets,
        offsets_for_times,
        consume_in_group,
        consume_in_group_consumer_protocol,
        commit,
        committed,
        create_topics,
        create_topics_validate_only,
        create_partitions,
        delete_topics,
        delete_records,
        list_topics,
        list_offsets,
        elect_leaders,
        describe_configs,
        describe_broker_configs,
        describe_group_configs,
        alter_configs,
        alter_configs_whole,
        alter_broker_configs,
        alter_group_configs,
        list_groups,
        describe_groups,
        delete_groups,
        list_group_offsets,
        alter_group_offsets,
        describe_cluster,
        create_acls,
        describe_acls,
        delete_acls,
        describe_scram_users,
        alter_scram_users,
    )
} | {"produce_creating": produce, "create_topics_by_cluster": create_topics, "describe_topics": metadata}


if __name__ == "__main__":
    version = f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}"
    serve(version, ACTIONS, Confluent, told)
