"""Scenes of all that a test waits for: each scene plays with one client and one broker, and returns its rows in seconds."""

from __future__ import annotations

import itertools
import json
import math
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka import Producer

from ...support.brokers.process import BrokerProcess
from ...waits.driver import Client, ClientError, Driver
from ..race.sides import make_topic

FIRST = "subscribe → first record"
FIRST_OF_FOUR = "the same, the last of a group of 4"
EIGHT, FIFTY = (f"{count} members at once → each has its part" for count in (8, 50))
SECOND = "second member → has its part"
LEFT = "leave → the other has all"
KILLED = "kill of a member → the other has all"
CREATED = "topic created → produced"
TRANSACTION = "transaction begun → committed → read"
CONSUMER_CLOSE, PRODUCER_CLOSE = "close of a consumer", "close of a producer"
CONSUMER_CLOSE_ALONE, PRODUCER_CLOSE_ALONE = (f"{close}, the broker gone" for close in (CONSUMER_CLOSE, PRODUCER_CLOSE))
GONE_ROWS = (CONSUMER_CLOSE_ALONE, PRODUCER_CLOSE_ALONE)
ROWS = {
    FIRST: "the topic has a record; starting the client counts",
    FIRST_OF_FOUR: "all four subscribe at once to four partitions that get 50 records a second each",
    EIGHT: "one partition for each",
    FIFTY: "the same",
    SECOND: "seven to ten seconds after the first has all four partitions; in a share group, until its first record",
    LEFT: "as long after that, so that its heartbeats have begun again; from the call of close",
    KILLED: "kill -9; then the clock is advanced past the session timeout, so only with Ottla",
    CREATED: "the client's admin client, then an open producer",
    TRANSACTION: "one record, producer and consumer open",
    CONSUMER_CLOSE: "alone in its group, auto-commit on where that is the default",
    PRODUCER_CLOSE: "all delivered",
    CONSUMER_CLOSE_ALONE: "the same after kill -9 of the broker; one record not committed yet",
    PRODUCER_CLOSE_ALONE: "the same after kill -9 of the broker",
}
"""Each row, with its conditions."""
SETTLED_S, RHYTHM_S = 7.0, 3.0
"""After SETTLED_S heartbeats have begun, and the first auto-commit, after 5 s, is over. A change comes up to RHYTHM_S later, at random: at
the same moment between two heartbeats all runs would wait equally long."""
SESSION_S_MAX = 45
"""The longest session timeout of the clients' defaults."""
FEED_S = 0.02

Result = dict[str, float]
numbers = itertools.count(1)
chance = random.Random(1)


@dataclass(frozen=True)
class Stage:
    """A broker; `admin` is the address of Ottla's admin listener."""

    broker: BrokerProcess
    admin: str | None

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def topic(self, partitions: int = 1) -> str:
        """Create a topic with a record in each partition."""
        topic = f"t{next(numbers)}"
        make_topic(self.broker, topic, partitions)
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 3})
        for partition in range(partitions):
            producer.produce(topic, b"first", partition=partition)
        if producer.flush(30):
            raise ClientError(f"{topic} takes no records")
        return topic

    def advance_clock(self, seconds: float) -> None:
        """Do nothing if the broker has no such clock."""
        if self.admin:
            body = json.dumps({"by_ms": round(seconds * 1000)}).encode()
            request = urllib.request.Request(
                f"http://{self.admin}/v1/clock/advance", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=30).close()


def settled_s() -> float:
    return SETTLED_S + RHYTHM_S * chance.random()


def new_name(client: Client, what: str) -> str:
    return f"{client.slug}-{what}{next(numbers)}"


@contextmanager
def fed(stage: Stage, topic: str, partitions: int) -> Iterator[None]:
    """Produce records to each partition all the time."""
    producer, ended = (
        Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 0, "log_level": 3}),
        threading.Event(),
    )

    def feed() -> None:
        while not ended.wait(FEED_S):
            for partition in range(partitions):
                producer.produce(topic, b"more", partition=partition)
            producer.poll(0)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield
    finally:
        ended.set()
        feeding.join()
        producer.flush(30)


def alone(stage: Stage, driver: Driver) -> Result:
    topic, name = stage.topic(), new_name(driver.client, "c")
    begun_s = driver.consume(name, stage.bootstrap, topic, topic)
    first_s = driver.wait(name, "record") - begun_s
    return {FIRST: first_s, CONSUMER_CLOSE: driver.close(name)}


def four(stage: Stage, driver: Driver) -> Result:
    topic, names = stage.topic(4), [new_name(driver.client, "c") for _ in range(4)]
    with fed(stage, topic, 4):
        begun_s = time.perf_counter()
        for name in names:
            driver.consume(name, stage.bootstrap, topic, topic)
        last_s = max(driver.wait(name, "record") for name in names)
    for name in names:
        driver.close(name)
    return {FIRST_OF_FOUR: last_s - begun_s}


def eight(stage: Stage, driver: Driver) -> Result:
    return {EIGHT: _joined_s(stage, driver, 8)}


def fifty(stage: Stage, driver: Driver) -> Result:
    return {FIFTY: _joined_s(stage, driver, 50)}


def _joined_s(stage: Stage, driver: Driver, members: int) -> float:
    topic, names = stage.topic(members), [new_name(driver.client, "c") for _ in range(members)]
    begun_s = time.perf_counter()
    for name in names:
        driver.consume(name, stage.bootstrap, topic, topic)
    took_s = max(driver.wait(name, "assigned", "1") for name in names) - begun_s
    for name in names:
        driver.tell("close", name)
    for name in names:
        driver.wait(name, "closed")
    return took_s


def second_of_share_group(stage: Stage, driver: Driver) -> Result:
    topic, first, other = stage.topic(4), new_name(driver.client, "c"), new_name(driver.client, "c")
    with fed(stage, topic, 4):
        driver.consume(first, stage.bootstrap, topic, topic)
        driver.wait(first, "record")
        time.sleep(settled_s())
        begun_s = driver.consume(other, stage.bootstrap, topic, topic)
        took_s = driver.wait(other, "record") - begun_s
    driver.close(other)
    driver.close(first)
    return {SECOND: took_s}


def second(stage: Stage, driver: Driver) -> Result:
    topic, first, other = stage.topic(4), new_name(driver.client, "c"), new_name(driver.client, "c")
    driver.consume(first, stage.bootstrap, topic, topic)
    driver.wait(first, "assigned", "4")
    time.sleep(settled_s())
    begun_s = driver.consume(other, stage.bootstrap, topic, topic)
    has_part_s = driver.wait(other, "assigned", "2")
    driver.wait(first, "assigned", "2", after_s=begun_s)
    time.sleep(settled_s())
    driver.tell("close", other)
    closing_s = driver.wait(other, "closing")
    has_all_s = driver.wait(first, "assigned", "4", after_s=closing_s)
    driver.wait(other, "closed")
    driver.close(first)
    return {SECOND: has_part_s - begun_s, LEFT: has_all_s - closing_s}


def created(stage: Stage, driver: Driver) -> Result:
    admin, producer, topic = new_name(driver.client, "a"), new_name(driver.client, "p"), f"t{next(numbers)}"
    driver.do("admin", admin, stage.bootstrap, then="ready")
    driver.do("produce", producer, stage.bootstrap, then="ready")
    driver.do("send", producer, stage.topic(), "before", then="sent")
    begun_s = driver.tell("create", admin, topic)
    driver.wait(admin, "created")
    sending_s = driver.tell("send", producer, topic, "first")
    took_s = driver.wait(producer, "sent", after_s=sending_s) - begun_s
    driver.close(admin)
    return {CREATED: took_s, PRODUCER_CLOSE: driver.close(producer)}


def transaction(stage: Stage, driver: Driver) -> Result:
    topic, consumer, producer = stage.topic(), new_name(driver.client, "c"), new_name(driver.client, "p")
    driver.consume(consumer, stage.bootstrap, topic, topic)
    driver.do("transact", producer, stage.bootstrap, then="ready")
    driver.do("send", producer, topic, "one", then="sent")
    driver.wait(consumer, "record", "one")
    begun_s = driver.tell("send", producer, topic, "two")
    took_s = driver.wait(consumer, "record", "two") - begun_s
    driver.wait(producer, "sent", after_s=begun_s)
    driver.close(consumer)
    driver.close(producer)
    return {TRANSACTION: took_s}


Scene = Callable[[Stage, Driver], Result]
SCENE_ROWS: Mapping[Scene, tuple[str, ...]] = {
    alone: (FIRST, CONSUMER_CLOSE),
    created: (CREATED, PRODUCER_CLOSE),
    transaction: (TRANSACTION,),
    eight: (EIGHT,),
    fifty: (FIFTY,),
    four: (FIRST_OF_FOUR,),
    second: (SECOND, LEFT),
    second_of_share_group: (SECOND,),
}
"""The rows of each scene of one client."""
SCENES_THAT_WAIT = {four, second, second_of_share_group}
"""Most of their time is the wait for a heartbeat or a delay: brokers can be measured side by side."""
SCENES_OF_TWO = {second, second_of_share_group}
"""Several groups can be measured at once: they compute only for some milliseconds of their ten to twenty seconds."""
SCENES_OF_PROTOCOL: Mapping[str, tuple[Scene, ...]] = {"share": (second_of_share_group,), "streams": (second,)}
SCENES_OF_CONSUMERS: tuple[Scene, ...] = (alone, created, transaction, eight, four, second)


def scenes_of(client: Client) -> tuple[Scene, ...]:
    """Return the scenes that a client plays: fifty members are one process's of a compiled client."""
    if client.heartbeat_ms:
        return (second,)
    scenes = SCENES_OF_PROTOCOL.get(client.protocol, SCENES_OF_CONSUMERS)
    return (*scenes, fifty) if client.name.startswith("confluent-kafka") else scenes


def each(clients: Iterable[Client], step: Callable[[Client], None], failed: dict[str, str]) -> list[Client]:
    """Take a step with each client; return those that could. The others are added to `failed`."""
    able = []
    for client in clients:
        try:
            step(client)
            able.append(client)
        except (ClientError, TimeoutError) as error:
            failed[client.name] = str(error)
    return able


def killed(stage: Stage, clients: Sequence[Client]) -> tuple[dict[str, Result], dict[str, str]]:
    """Kill the second member of each client's group at the same time; return the rows, and what failed, by client."""
    found, failed = dict[str, Result](), dict[str, str]()
    with ExitStack() as stack:
        pairs = {client: [stack.enter_context(Driver(client)) for _ in range(2)] for client in clients}
        topics = {client: stage.topic(4) for client in clients}
        at_s = dict[Client, float]()

        def join(client: Client) -> None:
            for number, driver in enumerate(pairs[client]):
                driver.consume(
                    f"{client.slug}-{topics[client]}-{number}", stage.bootstrap, topics[client], topics[client]
                )

        def share(client: Client) -> None:
            for number, driver in enumerate(pairs[client]):
                driver.wait(f"{client.slug}-{topics[client]}-{number}", "assigned", "2")

        def take_over(client: Client) -> None:
            name = f"{client.slug}-{topics[client]}-0"
            has_all_s = pairs[client][0].wait(name, "assigned", "4", after_s=at_s[client])
            found[client.name] = {KILLED: has_all_s - at_s[client]}

        able = each(each(clients, join, failed), share, failed)
        time.sleep(SETTLED_S)
        for client in able:
            at_s[client] = pairs[client][1].kill()
        stage.advance_clock(SESSION_S_MAX)
        each(able, take_over, failed)
    return found, failed


def gone(stage: Stage, clients: Sequence[Client]) -> tuple[dict[str, Result], dict[str, str]]:
    """Kill the broker, then close each client's consumer and producer; return the rows, and what failed, by client."""
    found, failed = dict[str, Result](), dict[str, str]()
    with ExitStack() as stack:
        drivers = {client: stack.enter_context(Driver(client)) for client in clients}
        topics = {client: stage.topic() for client in clients}

        def open_both(client: Client) -> None:
            topic, driver = topics[client], drivers[client]
            driver.consume(f"{client.slug}-{topic}-c", stage.bootstrap, topic, topic)
            driver.do("produce", f"{client.slug}-{topic}-p", stage.bootstrap, then="ready")
            driver.wait(f"{client.slug}-{topic}-c", "record")
            driver.do("send", f"{client.slug}-{topic}-p", topic, "last", then="sent")
            driver.wait(f"{client.slug}-{topic}-c", "record", "last")

        def close(client: Client) -> None:
            found[client.name] = {}
            for what, kind in ((CONSUMER_CLOSE_ALONE, "c"), (PRODUCER_CLOSE_ALONE, "p")):
                name, driver = f"{client.slug}-{topics[client]}-{kind}", drivers[client]
                closing_s = driver.wait(name, "closing")
                try:
                    found[client.name][what] = driver.wait(name, "closed") - closing_s
                except TimeoutError:
                    found[client.name][what] = math.inf

        able = each(clients, open_both, failed)
        stage.broker.kill()
        for client in able:
            for kind in ("c", "p"):
                drivers[client].tell("close", f"{client.slug}-{topics[client]}-{kind}")
        each(able, close, failed)
    return found, failed
