"""Waits of a test for its consumers, with nine clients: wait until a consumer reads, produce, and it has the record.

Every consumer starts at the end of its topic, so a record that is produced too early is lost. Python clients wait by
`broker.wait_until_reading`, Java and Go by `ottla wait`, Node over HTTP. Then each wait times out with the sentence of SENTENCES.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import ottla

from ..support.suite import NotRunError, Options, Suite, run_suite
from .driver import CLIENTS, Client, ClientError, Driver
from .ways import Wait, by_command, by_http, by_method

RUNS, QUICK_RUNS = 100, 5
RUNS_WITHOUT = 10
PARTITIONS = 2
LANES = 3
WAIT_S, RECEIVED_S, MISSED_S, SHORT_S = 30.0, 10.0, 1.0, 0.2

SENTENCES = {
    "reading {other} {group}": "no consumer reads {other}-0, {other}-1; {there}",
    "consumed {other} {group}": "not consumed: {other}-1: nothing committed, log end 1; {there}",
    "stable {group} 2": "group '{group}' is not stable with 2 members; {there}",
    "reading {topic} absent": "group 'absent' not found",
    "consumed {topic} absent": "group 'absent' not found",
    "stable absent 1": "group 'absent' not found",
    "reading missing {group}": "topic 'missing' not found",
}
"""A wait while the one member of a group reads another topic -> what its timeout says; `there` is THERE."""
THERE = "the {kind} group is Stable, members: {name} at /127.0.0.1"
LEFT = "reading {topic} {group}", "no consumer reads {topic}-0, {topic}-1; the {kind} group is Empty, members: none"
"""Wait and sentence after the member has left."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("Ottla, whose waits these are")
    runs = QUICK_RUNS if options.quick else RUNS
    with ottla.Broker(admin="0") as broker, ThreadPoolExecutor(LANES) as lanes:
        for done in [lanes.submit(judge, suite, broker, client, runs) for client in CLIENTS]:
            done.result()


def way_of(client: Client) -> Wait:
    if client.is_python:
        return by_method
    return by_http if client.name == "kafkajs" else by_command


def judge(suite: Suite, broker: ottla.Broker, client: Client, runs: int) -> None:
    try:
        client.command()
    except NotRunError as error:
        suite.skip(client.name, f"not run: needs {error}")
        return
    wait = way_of(client)

    def until_reading(_: Driver, name: str) -> None:
        if sentence := wait(broker, f"reading {name} {name}", WAIT_S):
            raise TimeoutError(sentence)

    def until_assigned(driver: Driver, name: str) -> None:
        driver.wait(name, "assigned", str(PARTITIONS))

    with Driver(client) as driver:
        received, trouble = 0, ""
        for number in range(runs):
            try:
                received += receives(broker, driver, f"{client.slug}-{number}", until_reading, RECEIVED_S)
            except (ClientError, TimeoutError) as error:
                trouble = str(error)
        suite.check(f"{client.name}: wait, then produce: {received} of {runs} received", received == runs, trouble)
        if runs == RUNS:
            early = sum(
                receives(broker, driver, f"{client.slug}-early-{number}", until_assigned, MISSED_S)
                for number in range(RUNS_WITHOUT)
            )
            suite.note(f"{client.name}: assignment, then produce: {early} of {RUNS_WITHOUT} received")
        time_out(suite, broker, driver, wait)


def receives(
    broker: ottla.Broker, driver: Driver, name: str, until: Callable[[Driver, str], None], limit_s: float
) -> bool:
    """Produce a record to each partition as soon as `until` returns; return whether the consumer has got both."""
    broker.create_topic(name, partitions=PARTITIONS)
    driver.consume(name, broker.bootstrap, name, name, reset="latest")
    until(driver, name)
    for partition in range(PARTITIONS):
        broker.produce(name, f"{partition}", partition=partition)
    try:
        for partition in range(PARTITIONS):
            driver.wait(name, "record", f"{partition}", timeout_s=limit_s)
    except TimeoutError:
        return False
    finally:
        driver.close(name)
    return True


def time_out(suite: Suite, broker: ottla.Broker, driver: Driver, wait: Wait) -> None:
    """Check each sentence."""
    client, name = driver.client, f"{driver.client.slug}-late"
    words = {"topic": name, "other": f"{name}-other", "group": name, "name": name, "kind": client.protocol}
    words["there"] = THERE.format(**words)
    for topic in (words["topic"], words["other"]):
        broker.create_topic(topic, partitions=PARTITIONS)
    broker.produce(words["other"], "unread", partition=1)
    driver.consume(name, broker.bootstrap, name, name)
    suite.equal(f"{client.name}: reads", "", wait(broker, f"reading {name} {name}", WAIT_S))

    def check(what: str, sentence: str) -> None:
        expected = f"{sentence.format(**words)}; waited {SHORT_S:g} s"
        suite.equal(f"{client.name}: time limit of '{what}'", expected, wait(broker, what.format(**words), SHORT_S))

    for what, sentence in SENTENCES.items():
        check(what, sentence)
    driver.close(name)
    check(*LEFT)


if __name__ == "__main__":
    sys.exit(run_suite("waits", body, doc=__doc__))
