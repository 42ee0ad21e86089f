"""aiokafka, a line at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from .serving import Line, Refused, Unsupported, missing, serve

try:
    import aiokafka
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka import errors as kafka_errors
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.helpers import create_ssl_context
except ImportError:
    missing("aiokafka")

RUNNER = asyncio.Runner()
GROUP_TIMES = 4
"""The factor of the time-out for a consumer in a group, which joins by several calls."""
NO_TIME_S = 15
"""A time limit in addition to a call's time-out, for a client that retries without end."""


class _Seen(logging.Handler):
    """The reasons of failed connections: aiokafka only logs them, and raises a general connection error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        self.errors += [each for each in args if isinstance(each, BaseException)]


SEEN = _Seen()
REFUSED = kafka_errors.SaslAuthenticationFailed
REFUSALS = (REFUSED, kafka_errors.UnsupportedSaslMechanismError, kafka_errors.IllegalSaslStateError)


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class AioKafka:
    """The admin client of one login, and the options of its producers and consumers."""

    def __init__(self, line: Line) -> None:
        self.timeout_ms = int(line["timeout_ms"])
        SEEN.errors.clear()
        if line.get("is_token_login"):
            raise Unsupported("logins by delegation tokens")
        given = {
            "bootstrap_servers": "bootstrap",
            "security_protocol": "protocol",
            "sasl_mechanism": "mechanism",
            "sasl_plain_username": "username",
            "sasl_plain_password": "password",
        }
        self.options: dict[str, Any] = {name: line[key] for name, key in given.items() if key in line}
        if line["protocol"].endswith("SSL"):
            self.options["ssl_context"] = create_ssl_context(
                cafile=line.get("ca"), certfile=line.get("certificate"), keyfile=line.get("key")
            )
        if "token" in line:
            self.options["sasl_oauth_token_provider"] = _Token(line["token"])
        self.options["request_timeout_ms"] = self.timeout_ms
        self._admin: Any = None

    async def admin(self) -> Any:
        if self._admin is None:
            admin = AIOKafkaAdminClient(**self.options)
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    @asynccontextmanager
    async def started(self, client: Any) -> AsyncIterator[Any]:
        """Yield a producer or a consumer of this login."""
        try:
            await client.start()
            yield client
        finally:
            await client.stop()

    def producer(self, **more: Any) -> Any:
        return self.started(AIOKafkaProducer(**self.options, **more))

    def consumer(self, *topics: str, **more: Any) -> Any:
        limits = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return self.started(AIOKafkaConsumer(*topics, **self.options, **limits, **more))

    def close(self) -> None:
        if self._admin is not None:
            RUNNER.run(self._admin.close())


def told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, kafka_errors.KafkaConnectionError):
        error = next((each for each in SEEN.errors if isinstance(each, REFUSALS)), error)
    said = ", ".join(str(each) for each in error.args) if isinstance(error, REFUSED) else ""
    name = getattr(error, "message", None) if getattr(error, "errno", None) else None
    return str(name or type(error).__name__), said


def checked(value: Any) -> None:
    """Refused, if there is an error anywhere in an answer."""
    if hasattr(value, "to_object"):
        value = value.to_object()
    if isinstance(value, dict):
        if code := value.get("error_code"):
            raise Refused(str(kafka_errors.for_code(code).message))
        for each in value.values():
            checked(each)
    elif isinstance(value, list | tuple):
        for each in value:
            checked(each)


# -- clients of records


async def metadata(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).describe_topics([given["topic"]]))


async def _sent(producer: Any, session: AioKafka, topic: str) -> None:
    await producer.send_and_wait(topic, b"v", partition=0)


async def _produce(session: AioKafka, given: Line, **more: Any) -> None:
    async with session.producer(**more) as producer:
        await _sent(producer, session, given["topic"])


async def produce(session: AioKafka, given: Line) -> None:
    await _produce(session, given, acks=1)


async def produce_acks_all(session: AioKafka, given: Line) -> None:
    await _produce(session, given, acks="all")


async def produce_idempotent(session: AioKafka, given: Line) -> None:
    await _produce(session, given, enable_idempotence=True)


async def init_transactions(session: AioKafka, given: Line) -> None:
    async with session.producer(transactional_id=given["transactional_id"]):
        pass


async def produce_transactional(session: AioKafka, given: Line) -> None:
    async with session.producer(transactional_id=given["transactional_id"]) as producer:
        await producer.begin_transaction()
        await _sent(producer, session, given["topic"])
        await producer.commit_transaction()


async def abort_transactional(session: AioKafka, given: Line) -> None:
    async with session.producer(transactional_id=given["transactional_id"]) as producer:
        await producer.begin_transaction()
        await _sent(producer, session, given["topic"])
        await producer.abort_transaction()


async def send_offsets(session: AioKafka, given: Line) -> None:
    async with session.producer(transactional_id=given["transactional_id"]) as producer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition(given["topic"], 0): 1}, given["group"])
        await producer.commit_transaction()


async def _polled(consumer: Any, session: AioKafka, times: int = 1) -> None:
    if not await consumer.getmany(timeout_ms=times * session.timeout_ms):
        raise Refused("no record")


async def consume(session: AioKafka, given: Line) -> None:
    async with session.consumer() as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        await _polled(consumer, session)


async def end_offsets(session: AioKafka, given: Line) -> None:
    async with session.consumer() as consumer:
        await consumer.end_offsets([TopicPartition(given["topic"], 0)])


async def offsets_for_times(session: AioKafka, given: Line) -> None:
    async with session.consumer() as consumer:
        await consumer.offsets_for_times({TopicPartition(given["topic"], 0): 0})


async def consume_in_group(session: AioKafka, given: Line) -> None:
    async with session.consumer(given["topic"], group_id=given["group"]) as consumer:
        await _polled(consumer, session, GROUP_TIMES)
        await consumer.commit()


async def commit(session: AioKafka, given: Line) -> None:
    async with session.consumer(group_id=given["group"]) as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        await consumer.commit({partition: 1})


async def committed(session: AioKafka, given: Line) -> None:
    async with session.consumer(group_id=given["group"]) as consumer:
        partition = TopicPartition(given["topic"], 0)
        consumer.assign([partition])
        if await consumer.committed(partition) is None:
            raise Refused("missing")


# -- the admin client


async def create_topics(session: AioKafka, given: Line, **more: Any) -> None:
    checked(await (await session.admin()).create_topics([NewTopic(given["topic"], 1, 1)], **more))


async def create_topics_validate_only(session: AioKafka, given: Line) -> None:
    await create_topics(session, given, validate_only=True)


async def create_partitions(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).create_partitions({given["topic"]: NewPartitions(3)}))


async def delete_topics(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).delete_topics([given["topic"]]))


async def delete_records(session: AioKafka, given: Line) -> None:
    await (await session.admin()).delete_records({TopicPartition(given["topic"], 0): RecordsToDelete(before_offset=1)})


async def list_topics(session: AioKafka, given: Line) -> None:
    await (await session.admin()).list_topics()


async def describe_configs(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).describe_configs([ConfigResource(ConfigResourceType.TOPIC, given["topic"])]))


async def describe_broker_configs(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")]))


async def alter_configs_whole(session: AioKafka, given: Line) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, given["topic"], configs={"retention.ms": "1000000"})
    checked(await (await session.admin()).alter_configs([resource]))


async def list_groups(session: AioKafka, given: Line) -> None:
    await (await session.admin()).list_consumer_groups()


async def describe_groups(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).describe_consumer_groups([given["group"]]))


async def list_group_offsets(session: AioKafka, given: Line) -> None:
    partitions = [TopicPartition(given["topic"], 0)]
    await (await session.admin()).list_consumer_group_offsets(given["group"], partitions=partitions)


async def describe_cluster(session: AioKafka, given: Line) -> None:
    checked(await (await session.admin()).describe_cluster())


def _run(action: Callable[[AioKafka, Line], Awaitable[None]]) -> Callable[[AioKafka, Line], None]:
    def run(session: AioKafka, given: Line) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(action(session, given), session.timeout_ms / 1000 + NO_TIME_S)

        RUNNER.run(bounded())

    return run


NAMED = {
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
        list_topics,
        describe_configs,
        describe_broker_configs,
        alter_configs_whole,
        list_groups,
        describe_groups,
        list_group_offsets,
        describe_cluster,
    )
} | {"produce_creating": produce, "create_topics_by_cluster": create_topics}


if __name__ == "__main__":
    logging.getLogger("aiokafka").addHandler(SEEN)
    actions = {name: _run(action) for name, action in NAMED.items()}
    serve(f"aiokafka {aiokafka.__version__}", actions, AioKafka, told)
