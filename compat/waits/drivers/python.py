"""kafka-python, confluent-kafka or aiokafka, named by the first argument."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar

POLL_S = 0.05
KAFKA_PYTHON_POLL_MS = 1_000
TIMEOUT_S = 60.0
speaking = threading.Lock()


def say(*words: object) -> None:
    with speaking:
        print("@", *words, flush=True)


class Closed:
    """A client with a close that is timed from outside."""

    def __init__(self, name: str) -> None:
        self.name = name

    def close(self) -> None:
        say(self.name, "closing")
        self.end()
        say(self.name, "closed")

    def end(self) -> None:
        raise NotImplementedError


class Consumer(Closed):
    """Base of the consumers: each polls in a thread of its own, and closes there."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, group: str, protocol: str, reset: str, heartbeat_ms: str
    ) -> None:
        super().__init__(name)
        self.heartbeat_ms = int(heartbeat_ms)
        self.bootstrap, self.topic, self.group, self.protocol, self.reset = bootstrap, topic, group, protocol, reset
        self.halted = threading.Event()
        self.owned: set[int] = set()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - the suite reports whatever the client raises
            say(self.name, "error", f"{type(error).__name__}: {error}")

    def run(self) -> None:
        """Poll until `halted`, then `close`."""
        raise NotImplementedError

    def close(self) -> None:
        if threading.current_thread() is self.thread:
            super().close()
        else:
            self.halted.set()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.owned |= {each.partition for each in assigned}
        say(self.name, "assigned", len(self.owned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.owned -= {each.partition for each in revoked}
        say(self.name, "assigned", len(self.owned))

    on_partitions_lost = on_partitions_revoked


class ConfluentConsumer(Consumer):
    def run(self) -> None:
        import confluent_kafka

        options = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.name,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "auto.offset.reset": self.reset,
            "log_level": 0,
        }
        self.client = confluent_kafka.Consumer(options)
        self.client.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.on_partitions_assigned(partitions),
            on_revoke=lambda _, partitions: self.on_partitions_revoked(partitions),
        )
        while not self.halted.is_set():
            message = self.client.poll(POLL_S)
            if message is not None and message.error() is None:
                say(self.name, "record", (message.value() or b"").decode())
        self.close()

    def end(self) -> None:
        self.client.close()


class KafkaPythonConsumer(Consumer):
    def run(self) -> None:
        import kafka

        consumer = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                consumer.on_partitions_assigned(assigned)

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                consumer.on_partitions_revoked(revoked)

        self.client = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            client_id=self.name,
            group_id=self.group,
            auto_offset_reset=self.reset,
            isolation_level="read_committed",
        )
        # If a poll of version 3.0.12 ends within a rebalance, the consumer can stay without partitions. It joins before it knows
        # its topic, and then again, so without this line it has two rebalances.
        self.client.partitions_for_topic(self.topic)
        self.client.subscribe([self.topic], listener=Listener())
        while not self.halted.is_set():
            for records in self.client.poll(KAFKA_PYTHON_POLL_MS).values():
                for each in records:
                    say(self.name, "record", each.value.decode())
        self.close()

    def end(self) -> None:
        self.client.close()


class AiokafkaConsumer(Consumer):
    def run(self) -> None:
        asyncio.run(self.consume())

    async def consume(self) -> None:
        import aiokafka

        consumer = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                consumer.on_partitions_assigned(assigned)

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                consumer.on_partitions_revoked(revoked)

        client = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            client_id=self.name,
            group_id=self.group,
            auto_offset_reset=self.reset,
            isolation_level="read_committed",
            **({"heartbeat_interval_ms": self.heartbeat_ms} if self.heartbeat_ms else {}),
        )
        client.subscribe([self.topic], listener=Listener())
        await client.start()
        while not self.halted.is_set():
            for records in (await client.getmany(timeout_ms=int(POLL_S * 1000))).values():
                for each in records:
                    say(self.name, "record", each.value.decode())
        say(self.name, "closing")
        await client.stop()
        say(self.name, "closed")


class Producer(Closed):
    def send(self, topic: str, value: str) -> None:
        raise NotImplementedError


class ConfluentProducer(Producer):
    def __init__(self, name: str, bootstrap: str, transactional: bool) -> None:
        import confluent_kafka

        super().__init__(name)
        options: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": name, "log_level": 0}
        self.transactional = transactional
        if transactional:
            options["transactional.id"] = name
        self.client = confluent_kafka.Producer(options)
        if transactional:
            self.client.init_transactions(TIMEOUT_S)

    def send(self, topic: str, value: str) -> None:
        if self.transactional:
            self.client.begin_transaction()
        errors: list[object] = []
        self.client.produce(topic, value.encode(), on_delivery=lambda error, _: errors.append(error))
        if self.transactional:
            self.client.commit_transaction(TIMEOUT_S)
        else:
            self.client.flush(TIMEOUT_S)
        if errors != [None]:
            raise RuntimeError(f"not delivered: {errors}")

    def end(self) -> None:
        self.client.close()


class KafkaPythonProducer(Producer):
    def __init__(self, name: str, bootstrap: str, transactional: bool) -> None:
        import kafka

        super().__init__(name)
        self.transactional = transactional
        self.client = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, client_id=name, transactional_id=name if transactional else None
        )
        if transactional:
            self.client.init_transactions()

    def send(self, topic: str, value: str) -> None:
        if self.transactional:
            self.client.begin_transaction()
            self.client.send(topic, value.encode())
            self.client.commit_transaction()
        else:
            self.client.send(topic, value.encode()).get(TIMEOUT_S)

    def end(self) -> None:
        self.client.close()


class Loop(threading.Thread):
    """An event loop for the clients of aiokafka that are not consumers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.loop = asyncio.new_event_loop()
        self.start()

    def run(self) -> None:
        self.loop.run_forever()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class AiokafkaProducer(Producer):
    loop: ClassVar[Loop]

    def __init__(self, name: str, bootstrap: str, transactional: bool) -> None:
        super().__init__(name)
        self.transactional = transactional
        self.loop.wait(self.begin(bootstrap))

    async def begin(self, bootstrap: str) -> None:
        import aiokafka

        transactional_id = self.name if self.transactional else None
        self.client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, client_id=self.name, transactional_id=transactional_id
        )
        await self.client.start()

    def send(self, topic: str, value: str) -> None:
        self.loop.wait(self.sent(topic, value))

    async def sent(self, topic: str, value: str) -> None:
        if self.transactional:
            async with self.client.transaction():
                await self.client.send_and_wait(topic, value.encode())
        else:
            await self.client.send_and_wait(topic, value.encode())

    def end(self) -> None:
        self.loop.wait(self.client.stop())


class Admin(Closed):
    def create(self, topic: str) -> None:
        raise NotImplementedError


class ConfluentAdmin(Admin):
    def __init__(self, name: str, bootstrap: str) -> None:
        from confluent_kafka import admin

        super().__init__(name)
        self.client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str) -> None:
        from confluent_kafka import admin

        for done in self.client.create_topics([admin.NewTopic(topic, 1, 1)]).values():
            done.result(TIMEOUT_S)

    def end(self) -> None:
        pass


class KafkaPythonAdmin(Admin):
    def __init__(self, name: str, bootstrap: str) -> None:
        from kafka import admin

        super().__init__(name)
        self.client = admin.KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topic: str) -> None:
        from kafka import admin

        self.client.create_topics([admin.NewTopic(topic, 1, 1)])

    def end(self) -> None:
        self.client.close()


class AiokafkaAdmin(Admin):
    loop: ClassVar[Loop]

    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(name)
        self.loop.wait(self.begin(bootstrap))

    async def begin(self, bootstrap: str) -> None:
        from aiokafka import admin

        self.client = admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await self.client.start()

    def create(self, topic: str) -> None:
        from aiokafka import admin

        self.loop.wait(self.client.create_topics([admin.NewTopic(topic, 1, 1)]))

    def end(self) -> None:
        self.loop.wait(self.client.close())


KINDS: dict[str, tuple[type[Consumer], Callable[[str, str, bool], Producer], Callable[[str, str], Admin]]] = {
    "kafka-python": (KafkaPythonConsumer, KafkaPythonProducer, KafkaPythonAdmin),
    "confluent-kafka": (ConfluentConsumer, ConfluentProducer, ConfluentAdmin),
    "aiokafka": (AiokafkaConsumer, AiokafkaProducer, AiokafkaAdmin),
}


def main() -> None:
    logging.disable(logging.CRITICAL)
    consumer, producer, admin = KINDS[sys.argv[1]]
    if sys.argv[1] == "aiokafka":
        AiokafkaProducer.loop = AiokafkaAdmin.loop = Loop()
    clients: dict[str, Any] = {}
    for line in sys.stdin:
        order, name, *words = line.split()
        try:
            if order == "consume":
                clients[name] = consumer(name, *words)
            elif order in ("produce", "transact"):
                clients[name] = producer(name, words[0], order == "transact")
                say(name, "ready")
            elif order == "admin":
                clients[name] = admin(name, words[0])
                say(name, "ready")
            elif order == "send":
                clients[name].send(*words)
                say(name, "sent")
            elif order == "create":
                clients[name].create(*words)
                say(name, "created")
            else:
                clients.pop(name).close()
        except Exception as error:  # noqa: BLE001 - the suite reports whatever the client raises
            say(name, "error", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
