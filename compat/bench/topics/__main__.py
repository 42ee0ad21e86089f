"""Many topics that are created and deleted: by CreateTopics, by auto-creation, by DeleteTopics.

    python -m compat.bench.topics [--before DIRECTORY] [--kafka] [--rounds N]

1 000 topics that Metadata creates, one request after the other, and 1 000 that one request of Metadata names, until Metadata
has them; one topic of 5 000 partitions in one request; 500 topics of ten in one; 1 400 topics deleted by one request. With
--before the bench compares with another checkout that has its own `.venv`, with --kafka with Apache Kafka, by turns.
"""

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..checkouts.sides import CheckoutProcess

ROOT = Path(__file__).parents[3]
OTTLA, BEFORE, KAFKA = "ottla", "before", "apache-kafka"
PARTITIONS, TOPICS, OF_A_TOPIC, AUTO, DELETED = 5_000, 500, 10, 1_000, 1_400
TIMEOUT_S = 300
BY_NAME = {api.name: api for api in APIS.values()}

Figures = dict[str, dict[str, list[float]]]
"""Measurement -> side -> values."""


class Client:
    """Asks one broker, and raises what it is refused."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = RawConnection("127.0.0.1", broker.port, TIMEOUT_S)

    def close(self) -> None:
        self._connection.close()

    def create(self, names: Sequence[str], partitions: int) -> None:
        topics = tuple([CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names])
        refuse_errors(
            self._ask("CreateTopics", 5, CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_S * 1000)).topics
        )

    def auto_create(self, names: Sequence[str]) -> None:
        self._metadata(names)

    def wait_for(self, names: Sequence[str]) -> None:
        """Wait until Metadata has all of them."""
        while any(topic.error_code for topic in self._metadata(names)):
            time.sleep(0.01)

    def delete(self, names: Sequence[str]) -> None:
        request = DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=TIMEOUT_S * 1000)
        refuse_errors(self._ask("DeleteTopics", 5, request).responses)

    def _metadata(self, names: Sequence[str]) -> Any:
        topics = tuple([MetadataRequestTopic(name=name) for name in names])
        return self._ask("Metadata", 8, MetadataRequest(topics=topics, allow_auto_topic_creation=True)).topics

    def _ask(self, name: str, version: int, body: Any) -> Any:
        self._connection.socket.sendall(encode_request(BY_NAME[name], version, 1, "bench", body))
        _, answer = parse_response(BY_NAME[name], version, self._connection.read_frame())
        return answer


def refuse_errors(rows: Sequence[Any]) -> None:
    if codes := {row.error_code for row in rows if row.error_code}:
        raise RuntimeError(f"refused with {sorted(codes)}")


def measure(note: Callable[[str, float], None], broker: BrokerProcess, part: int) -> None:
    """Measure one round of one side, on an empty broker."""
    client = Client(broker)

    def timed(what: str, step: Callable[[], object]) -> None:
        had_s, begun_s = broker.cpu_seconds(), time.perf_counter()
        step()
        note(f"{what}, s", time.perf_counter() - begun_s)
        note(f"{what}, CPU in s until a second later", rested_cpu_s(broker) - had_s)

    one_by_one = [f"a-{number}" for number in range(AUTO // part)]
    at_once = [f"m-{number}" for number in range(AUTO // part)]
    few = [f"t-{number}" for number in range(TOPICS // part)]
    with contextlib.closing(client):
        client.create(["first"], 1)

        def each() -> None:
            for name in one_by_one:
                client.auto_create([name])
            client.wait_for(one_by_one)

        def all_at_once() -> None:
            client.auto_create(at_once)
            client.wait_for(at_once)

        timed(f"{len(one_by_one)} topics that one Metadata after the other names, until they are there", each)
        timed(f"{len(at_once)} topics that one Metadata names, until they are there", all_at_once)
        timed(f"{PARTITIONS // part} partitions in one topic", lambda: client.create(["large"], PARTITIONS // part))
        timed(f"{len(few)} topics of {OF_A_TOPIC} in one request", lambda: client.create(few, OF_A_TOPIC))
        gone = (one_by_one + at_once)[: DELETED // part]
        timed(f"{len(gone)} topics deleted in one request", lambda: client.delete(gone))


def rested_cpu_s(broker: BrokerProcess) -> float:
    time.sleep(1)
    return broker.cpu_seconds()


@contextlib.contextmanager
def side(name: str, before: Path | None) -> Iterator[BrokerProcess]:
    overrides = {"num.partitions": "1"}
    if name == KAFKA:
        with ApacheKafkaProcess(overrides=overrides, heap="1g") as kafka:
            kafka.stop_timeout_s = TIMEOUT_S  # it has ten thousand logs to close
            yield kafka
    else:
        with CheckoutProcess(ROOT if before is None or name == OTTLA else before.resolve()) as ottla:
            ottla.stop_timeout_s = TIMEOUT_S  # it makes the directories of ten thousand new logs
            yield ottla


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start the brokers itself")
    arguments, machine = options.rest, Machine()
    names = [*([BEFORE] if arguments.before is not None else ()), OTTLA, *([KAFKA] if arguments.kafka else ())]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation compiles once
    figures: Figures = {}
    for number in range(1 if options.quick else arguments.rounds):
        for name in names[:: -1 if number % 2 else 1]:

            def note(what: str, value: float, side: str = name) -> None:
                figures.setdefault(what, {each: [] for each in names})[side].append(value)

            with side(name, arguments.before) as broker:
                measure(note, broker, 10 if options.quick else 1)
    for what, of in figures.items():
        shown = (f"{name} {statistics.median(found):.2f} ({min(found):.2f})" for name, found in of.items())
        suite.note(f"{what}, median (least): {'; '.join(shown)}")
    others = machine.others_part()
    suite.note(
        "what else the machine did is not known" if others is None else f"others had {others:.0%} of the machine"
    )
    suite.check("every request was answered without an error", True)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="another checkout to compare with")
    parser.add_argument("--kafka", action="store_true", help="compare with Apache Kafka")
    parser.add_argument("--rounds", type=int, default=3)


if __name__ == "__main__":
    sys.exit(run_suite("bench.topics", body, doc=__doc__, more_arguments=arguments))
