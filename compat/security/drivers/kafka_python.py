"""kafka-python, a line at a time."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import Any

from .serving import Line, Refused, Unsupported, missing, serve

try:
    import kafka
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import admin as a
    from kafka import errors as kafka_errors
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.structs import OffsetAndMetadata
except ImportError:
    missing("kafka-python")

BROKER_ERROR: Any = kafka_errors.BrokerResponseError
NAMES: dict[str, Any] = {
    one.__name__: one for one in vars(kafka_errors).values() if isinstance(one, type) and issubclass(one, BROKER_ERROR)
}


BOOTSTRAP_MS = 600
"""The time in which the client retries its bootstrap, whatever the broker answers.

Without an answer it retries for a call's time-out, as the machine is busy.
"""


class _Seen(logging.Handler):
    """Whether connections were closed: the client only logs that, and raises a time-out."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors += [each for each in record.args or () if isinstance(each, ENDS)]


ENDS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
    kafka_errors.KafkaConnectionError,
)
REFUSED_OR_ENDED = "refused, or ended"
"""The client sometimes misses an answer that is followed by the end of the connection."""
SEEN = _Seen()
PREFERRED = 0
GROUP_TIMES = 4
"""The factor of the time-out for a consumer in a group, which joins by several calls."""


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPython:
    """The admin client of one login, and the options of its producers and consumers."""

    def __init__(self, line: Line) -> None:
        self.timeout_ms = int(line["timeout_ms"])
        if line.get("is_token_login"):
            raise Unsupported("logins by delegation tokens")
        given = {
            "bootstrap_servers": "bootstrap",
            "security_protocol": "protocol",
            "sasl_mechanism": "mechanism",
            "sasl_plain_username": "username",
            "sasl_plain_password": "password",
            "ssl_cafile": "ca",
            "ssl_certfile": "certificate",
            "ssl_keyfile": "key",
        }
        self.options: dict[str, Any] = {name: line[key] for name, key in given.items() if key in line}
        SEEN.errors.clear()
        if "token" in line:
            self.options["sasl_oauth_token_provider"] = _Token(line["token"])
        self.options |= {"bootstrap_timeout_ms": BOOTSTRAP_MS, "request_timeout_ms": self.timeout_ms}
        self._admin: Any = None

    @property
    def admin(self) -> Any:
        if self._admin is None:
            self._admin = self._bootstrapped()
        return self._admin

    def _bootstrapped(self) -> Any:
        try:
            return KafkaAdminClient(**self.options)
        except kafka_errors.KafkaTimeoutError:
            if SEEN.errors:
                raise
            return KafkaAdminClient(**self.options | {"bootstrap_timeout_ms": self.timeout_ms})

    def producer(self, **more: Any) -> contextlib.closing[Any]:
        limits = {
            "bootstrap_timeout_ms": self.timeout_ms,
            "max_block_ms": self.timeout_ms,
            "delivery_timeout_ms": self.timeout_ms,
            "linger_ms": 0,
            "retries": 3,
        }
        return contextlib.closing(_Producer(**self.options | limits | more))

    def consumer(self, **more: Any) -> contextlib.closing[Any]:
        limits = {
            "bootstrap_timeout_ms": self.timeout_ms,
            "consumer_timeout_ms": self.timeout_ms,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        return contextlib.closing(_Consumer(**self.options | limits | more))

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


class _Producer(KafkaProducer):  # type: ignore[misc]
    def close(self, timeout: float = 1.0) -> None:
        super().close(timeout=timeout)


class _Consumer(KafkaConsumer):  # type: ignore[misc]
    def close(self) -> None:
        super().close(timeout_ms=1000)


def told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, ENDS):
        return REFUSED_OR_ENDED, ""
    name = getattr(error, "message", None) if getattr(error, "errno", None) else None
    return str(name or type(error).__name__), ""


def checked(value: Any) -> None:
    """Refused, if there is an error anywhere in what an admin call gave back."""
    if isinstance(value, type):
        checked({"error_code": getattr(value, "errno", 0)})
    elif isinstance(value, kafka_errors.BrokerResponseError):
        if value.errno:
            raise value
    elif isinstance(value, str):
        named = NAMES.get(re.sub(r"^\[Error \d+\] ", "", value).partition(":")[0])
        if named is not None and named.errno:
            raise Refused(named.message)
    elif isinstance(value, dict):
        if code := value.get("error_code"):
            raise Refused(kafka_errors.for_code(code).message)
        for each in value.values():
            checked(each)
    elif isinstance(value, list | tuple | set):
        for each in value:
            checked(each)
    elif hasattr(value, "error_code") and value.error_code:
        raise Refused(kafka_errors.for_code(value.error_code).message)


# -- clients of records


def _sent(producer: Any, session: KafkaPython, topic: str) -> None:
    producer.send(topic, b"v", partition=0).get(timeout=session.timeout_ms / 1000 + 1)


def metadata(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_topics([given["topic"]]))


def _produce(session: KafkaPython, given: Line, **more: Any) -> None:
    with session.producer(**more) as producer:
        _sent(producer, session, given["topic"])


def produce(session: KafkaPython, given: Line) -> None:
    _produce(session, given, acks=1, enable_idempotence=False)


def produce_acks_all(session: KafkaPython, given: Line) -> None:
    _produce(session, given, acks="all", enable_idempotence=False)


def produce_idempotent(session: KafkaPython, given: Line) -> None:
    _produce(session, given, enable_idempotence=True)


def init_transactions(session: KafkaPython, given: Line) -> None:
    with session.producer(transactional_id=given["transactional_id"]) as producer:
        producer.init_transactions()


def produce_transactional(session: KafkaPython, given: Line) -> None:
    with session.producer(transactional_id=given["transactional_id"]) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        _sent(producer, session, given["topic"])
        producer.commit_transaction()


def abort_transactional(session: KafkaPython, given: Line) -> None:
    with session.producer(transactional_id=given["transactional_id"]) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        _sent(producer, session, given["topic"])
        producer.abort_transaction()


def send_offsets(session: KafkaPython, given: Line) -> None:
    with session.producer(transactional_id=given["transactional_id"]) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        offsets = {TopicPartition(given["topic"], 0): OffsetAndMetadata(1, "", -1)}
        producer.send_offsets_to_transaction(offsets, given["group"])
        producer.commit_transaction()


def _polled(consumer: Any, session: KafkaPython, times: int = 1) -> None:
    deadline_s = time.monotonic() + times * session.timeout_ms / 1000
    while time.monotonic() < deadline_s:
        # Where a poll ends in the midst of a rebalance, this client may never end that (3.0.12).
        if consumer.poll(timeout_ms=2_000):
            return
    raise Refused("no record")


def consume(session: KafkaPython, given: Line) -> None:
    with session.consumer() as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        _polled(consumer, session)


def end_offsets(session: KafkaPython, given: Line) -> None:
    with session.consumer() as consumer:
        consumer.end_offsets([TopicPartition(given["topic"], 0)])


def offsets_for_times(session: KafkaPython, given: Line) -> None:
    with session.consumer() as consumer:
        consumer.offsets_for_times({TopicPartition(given["topic"], 0): 0})


def consume_in_group(session: KafkaPython, given: Line) -> None:
    with session.consumer(group_id=given["group"]) as consumer:
        consumer.subscribe([given["topic"]])
        _polled(consumer, session, GROUP_TIMES)
        consumer.commit()


def commit(session: KafkaPython, given: Line) -> None:
    with session.consumer(group_id=given["group"]) as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(1, "", -1)})


def committed(session: KafkaPython, given: Line) -> None:
    with session.consumer(group_id=given["group"]) as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        if consumer.committed(partition) is None:
            raise Refused("missing")


# -- topics


def create_topics(session: KafkaPython, given: Line, **more: Any) -> None:
    checked(session.admin.create_topics([a.NewTopic(given["topic"], 1, 1)], **more))


def create_topics_validate_only(session: KafkaPython, given: Line) -> None:
    create_topics(session, given, validate_only=True)


def create_partitions(session: KafkaPython, given: Line) -> None:
    checked(session.admin.create_partitions({given["topic"]: a.NewPartitions(3)}))


def delete_topics(session: KafkaPython, given: Line) -> None:
    checked(session.admin.delete_topics([given["topic"]]))


def delete_records(session: KafkaPython, given: Line) -> None:
    checked(session.admin.delete_records({TopicPartition(given["topic"], 0): 1}))


def describe_topics(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_topic_partitions([given["topic"]]))


def list_topics(session: KafkaPython, given: Line) -> None:
    session.admin.list_topics()


def list_offsets(session: KafkaPython, given: Line) -> None:
    checked(session.admin.list_partition_offsets({TopicPartition(given["topic"], 0): a.OffsetSpec.LATEST}))


def describe_producers(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_producers([TopicPartition(given["topic"], 0)]))


def elect_leaders(session: KafkaPython, given: Line) -> None:
    found = session.admin.elect_leaders(PREFERRED, [TopicPartition(given["topic"], 0)], raise_errors=False)
    checked(found)


def alter_partition_reassignments(session: KafkaPython, given: Line) -> None:
    checked(session.admin.alter_partition_reassignments({TopicPartition(given["topic"], 0): [0]}))


def list_partition_reassignments(session: KafkaPython, given: Line) -> None:
    checked(session.admin.list_partition_reassignments())


# -- configs


def _resource(kind: str, name: str, configs: Any = None) -> Any:
    return a.ConfigResource(getattr(a.ConfigResourceType, kind), name, configs=configs)


def _described(session: KafkaPython, resource: Any) -> None:
    """Describe configs. An error is only visible as missing configs."""
    found = session.admin.describe_configs([resource], config_filter="all")
    if not any(configs for resources in found.values() for configs in resources.values()):
        raise Refused("missing")


def describe_configs(session: KafkaPython, given: Line) -> None:
    _described(session, _resource("TOPIC", given["topic"]))


def describe_broker_configs(session: KafkaPython, given: Line) -> None:
    _described(session, _resource("BROKER", "0"))


def describe_group_configs(session: KafkaPython, given: Line) -> None:
    _described(session, _resource("GROUP", given["group"]))


def _altered(session: KafkaPython, kind: str, name: str, configs: dict[str, str], *, incremental: bool = True) -> None:
    resource = _resource(kind, name, configs)
    checked(session.admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental))


def alter_configs(session: KafkaPython, given: Line) -> None:
    _altered(session, "TOPIC", given["topic"], {"retention.ms": "1000000"})


def alter_configs_whole(session: KafkaPython, given: Line) -> None:
    _altered(session, "TOPIC", given["topic"], {"retention.ms": "1000000"}, incremental=False)


def alter_broker_configs(session: KafkaPython, given: Line) -> None:
    _altered(session, "BROKER", "0", {"log.cleaner.threads": "1"})


def alter_group_configs(session: KafkaPython, given: Line) -> None:
    _altered(session, "GROUP", given["group"], {"consumer.session.timeout.ms": "45000"})


def list_config_resources(session: KafkaPython, given: Line) -> None:
    checked(session.admin.list_config_resources())


# -- groups


def list_groups(session: KafkaPython, given: Line) -> None:
    checked(session.admin.list_groups())


def describe_groups(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_groups([given["group"]]))


def delete_groups(session: KafkaPython, given: Line) -> None:
    checked(session.admin.delete_groups([given["group"]]))


def list_group_offsets(session: KafkaPython, given: Line) -> None:
    found = session.admin.list_group_offsets({given["group"]: [TopicPartition(given["topic"], 0)]})
    checked(found)


def alter_group_offsets(session: KafkaPython, given: Line) -> None:
    offsets = {TopicPartition(given["topic"], 0): OffsetAndMetadata(0, "", -1)}
    checked(session.admin.alter_group_offsets(given["group"], offsets))


def delete_group_offsets(session: KafkaPython, given: Line) -> None:
    checked(session.admin.delete_group_offsets(given["group"], [TopicPartition(given["topic"], 0)]))


def remove_group_members(session: KafkaPython, given: Line) -> None:
    checked(session.admin.remove_group_members(given["group"], [a.MemberToRemove(group_instance_id="nobody")]))


# -- transactions, cluster, security


def describe_transactions(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_transactions([given["transactional_id"]]))


def list_transactions(session: KafkaPython, given: Line) -> None:
    checked(session.admin.list_transactions())


def abort_hanging_transaction(session: KafkaPython, given: Line) -> None:
    spec = a.AbortTransactionSpec(TopicPartition(given["topic"], 0), 1234, 0, 0)
    checked(session.admin.abort_transaction(spec))


def describe_cluster(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_cluster())


def describe_features(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_features())


def update_features(session: KafkaPython, given: Line) -> None:
    update = {"metadata.version": (a.UpdateFeatureType.SAFE_DOWNGRADE, 0)}
    checked(session.admin.update_features(update, validate_only=True))


def describe_metadata_quorum(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_metadata_quorum())


def describe_log_dirs(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_log_dirs(brokers=[0]))


def alter_replica_log_dirs(session: KafkaPython, given: Line) -> None:
    replica = kafka.structs.TopicPartitionReplica(given["topic"], 0, 0)
    checked(session.admin.alter_replica_log_dirs({replica: "/no/such/directory"}))


def _pattern(kind: Any = a.ResourcePattern) -> Any:
    return kind(a.ResourceType.TOPIC, "none", a.ACLResourcePatternType.LITERAL)


def create_acls(session: KafkaPython, given: Line) -> None:
    acl = a.ACL("User:nobody", "*", a.ACLOperation.READ, a.ACLPermissionType.ALLOW, _pattern())
    checked(session.admin.create_acls([acl])["failed"])


def _filter(principal: str | None = None) -> Any:
    return a.ACLFilter(principal, "*", a.ACLOperation.ANY, a.ACLPermissionType.ANY, _pattern(a.ResourcePatternFilter))


def describe_acls(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_acls(_filter())[1])


def delete_acls(session: KafkaPython, given: Line) -> None:
    checked([row[2] for row in session.admin.delete_acls([_filter("User:nobody-else")])])


def describe_scram_users(session: KafkaPython, given: Line) -> None:
    checked(session.admin.describe_user_scram_credentials())


def alter_scram_users(session: KafkaPython, given: Line) -> None:
    made = a.UserScramCredentialUpsertion("made", a.ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096)
    if any(session.admin.alter_user_scram_credentials([made]).values()):  # of an error the message alone is left
        raise Refused("refused")


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
        commit,
        committed,
        create_topics,
        create_topics_validate_only,
        create_partitions,
        delete_topics,
        delete_records,
        describe_topics,
        list_topics,
        list_offsets,
        describe_producers,
        elect_leaders,
        alter_partition_reassignments,
        list_partition_reassignments,
        describe_configs,
        describe_broker_configs,
        describe_group_configs,
        alter_configs,
        alter_configs_whole,
        alter_broker_configs,
        alter_group_configs,
        list_config_resources,
        list_groups,
        describe_groups,
        delete_groups,
        list_group_offsets,
        alter_group_offsets,
        delete_group_offsets,
        remove_group_members,
        describe_transactions,
        list_transactions,
        abort_hanging_transaction,
        describe_cluster,
        describe_features,
        update_features,
        describe_metadata_quorum,
        describe_log_dirs,
        alter_replica_log_dirs,
        create_acls,
        describe_acls,
        delete_acls,
        describe_scram_users,
        alter_scram_users,
    )
} | {"produce_creating": produce, "create_topics_by_cluster": create_topics}


if __name__ == "__main__":
    logging.getLogger("kafka").addHandler(SEEN)
    serve(f"kafka-python {kafka.__version__}", ACTIONS, KafkaPython, told)
