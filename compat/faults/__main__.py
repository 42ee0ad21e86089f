"""The reactions of three clients to each declared fault: no loss, and no duplicate if the producer is idempotent.

python -m compat.faults        # --quick: one fault of each kind
"""

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ottla

from ..clients_groups.producers import AiokafkaProducer, ConfluentProducer, KafkaPythonProducer
from ..clients_groups.producers import Producer as TransactionalProducer
from ..support.suite import NotRunError, Options, Suite, run_suite
from .consuming import CONSUMERS, Consumer
from .producing import PRODUCERS, Producer, name_of, until

NODES = 3
RECORDS = 20
TRANSACTIONAL: tuple[type[TransactionalProducer], ...] = (KafkaPythonProducer, ConfluentProducer, AiokafkaProducer)
OPTIONS = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
Trouble = Callable[[ottla.Broker, str], Callable[[], None]]
"""Starts a trouble for a topic, and returns the function that ends it, called after the client has sent or read something."""


def fault(**said: Any) -> Trouble:
    """Return a declared fault, for the topic where the API names one."""

    def begin(broker: ottla.Broker, topic: str) -> Callable[[], None]:
        of_topic: dict[str, Any] = (
            {"topic": topic} if said.get("api") in ("Produce", "Fetch", "Metadata", "ListOffsets") else {}
        )
        declared = broker.fault(**said, **of_topic)

        def end() -> None:
            if declared.hits == 0:
                raise AssertionError(f"{said}: the client has sent no such request")
            declared.remove()

        return end

    return begin


def for_a_while(**said: Any) -> Trouble:
    """Return a fault that is removed by itself a second after it was first met."""

    def begin(broker: ottla.Broker, topic: str) -> Callable[[], None]:
        declared = broker.fault(**said)

        def remove() -> None:
            declared.wait(timeout=20)
            threading.Event().wait(1.0)
            declared.remove()

        thread = threading.Thread(target=remove, daemon=True)
        thread.start()
        return thread.join

    return begin


def failed_disk(broker: ottla.Broker, topic: str) -> Callable[[], None]:
    """Fail the disk until the broker is restarted, a second after the fault was hit."""
    declared = broker.fault(disk="failed")

    def restart() -> None:
        declared.wait(timeout=20)
        threading.Event().wait(1.0)
        broker.restart()

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    return thread.join


def moved_leader(broker: ottla.Broker, topic: str) -> Callable[[], None]:
    now = broker.move_leader(topic, 0, 0).leader
    broker.move_leader(topic, 0, (now + 1) % NODES)
    return lambda: None


def moved_coordinator(broker: ottla.Broker, topic: str) -> Callable[[], None]:
    for node in (0, 1):
        broker.move_coordinator(node, group=f"of-{topic}")
    return lambda: None


def stopped_node(broker: ottla.Broker, topic: str) -> Callable[[], None]:
    """Stop the node that leads; return the function that starts it again."""
    broker.move_leader(topic, 0, 0)
    broker.stop_node(0)
    return partial(broker.start_node, 0)


@dataclass(frozen=True)
class Case:
    """A trouble, and the expectation of a client."""

    name: str
    trouble: Trouble
    is_quick: bool = False
    may_fail: bool = False
    """Whether the client may get errors: records with an error must be missing from the log, or all of them must be there."""
    duplicates: bool = False
    """Whether a producer without idempotence may write again what was written."""


PRODUCED = (
    Case("Produce error NOT_LEADER_OR_FOLLOWER", fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER")),
    Case("Produce error KAFKA_STORAGE_ERROR ×3", fault(api="Produce", error="KAFKA_STORAGE_ERROR", count=3)),
    Case(
        "Produce error NOT_ENOUGH_REPLICAS_AFTER_APPEND, after",
        fault(api="Produce", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", after=True),
        is_quick=True,
        duplicates=True,
    ),
    Case(
        "Produce error REQUEST_TIMED_OUT, after, ×2",
        fault(api="Produce", error="REQUEST_TIMED_OUT", after=True, count=2),
        duplicates=True,
    ),
    Case(
        "Produce error TOPIC_AUTHORIZATION_FAILED",
        fault(api="Produce", error="TOPIC_AUTHORIZATION_FAILED"),
        may_fail=True,
    ),
    Case("Produce delay 500 ms", fault(api="Produce", delay=0.5)),
    Case("Produce delay 4 s, over the time-out", fault(api="Produce", delay=4), duplicates=True),
    Case("Produce disconnect before", fault(api="Produce", disconnect="before"), is_quick=True),
    Case("Produce disconnect after", fault(api="Produce", disconnect="after"), is_quick=True, duplicates=True),
    Case("Produce drop_response", fault(api="Produce", drop_response=True), is_quick=True, duplicates=True),
    Case("Metadata error LEADER_NOT_AVAILABLE ×2", fault(api="Metadata", error="LEADER_NOT_AVAILABLE", count=2)),
    Case("disk full for 1 s", for_a_while(disk="full")),
    Case("disk slow (300 ms) for 1 s", for_a_while(disk="slow", delay=0.3)),
    Case("disk failed, then restart", failed_disk),
    Case("leader moved", moved_leader, is_quick=True),
    Case("leader's node stopped", stopped_node),
)
CONSUMED = (
    Case("Fetch error NOT_LEADER_OR_FOLLOWER", fault(api="Fetch", error="NOT_LEADER_OR_FOLLOWER")),
    Case("Fetch error OFFSET_OUT_OF_RANGE", fault(api="Fetch", error="OFFSET_OUT_OF_RANGE"), duplicates=True),
    Case("Fetch error UNKNOWN_SERVER_ERROR", fault(api="Fetch", error="UNKNOWN_SERVER_ERROR")),
    Case("Fetch corrupt_batch", fault(api="Fetch", corrupt_batch=True), is_quick=True),
    Case("Fetch delay 1 s", fault(api="Fetch", delay=1)),
    Case("Fetch disconnect before", fault(api="Fetch", disconnect="before")),
    Case("Fetch disconnect after", fault(api="Fetch", disconnect="after")),
    Case("Fetch drop_response", fault(api="Fetch", drop_response=True)),
    Case("ListOffsets error LEADER_NOT_AVAILABLE", fault(api="ListOffsets", error="LEADER_NOT_AVAILABLE")),
    Case(
        "FindCoordinator error COORDINATOR_NOT_AVAILABLE ×2",
        fault(api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", count=2),
    ),
    Case("JoinGroup error COORDINATOR_LOAD_IN_PROGRESS", fault(api="JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS")),
    Case("SyncGroup error REBALANCE_IN_PROGRESS", fault(api="SyncGroup", error="REBALANCE_IN_PROGRESS")),
    Case("Heartbeat error UNKNOWN_MEMBER_ID", fault(api="Heartbeat", error="UNKNOWN_MEMBER_ID"), duplicates=True),
    Case("OffsetCommit error NOT_COORDINATOR", fault(api="OffsetCommit", error="NOT_COORDINATOR"), duplicates=True),
    Case(
        "OffsetCommit disconnect after", fault(api="OffsetCommit", disconnect="after"), is_quick=True, duplicates=True
    ),
    Case(
        "OffsetFetch error COORDINATOR_LOAD_IN_PROGRESS ×2",
        fault(api="OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS", count=2),
    ),
    Case("coordinator moved", moved_coordinator, duplicates=True),
    Case("leader moved", moved_leader),
    Case("leader's node stopped", stopped_node, duplicates=True),
)
COMMITTED = (
    Case("EndTxn disconnect after", fault(api="EndTxn", disconnect="after"), is_quick=True),
    Case("EndTxn error CONCURRENT_TRANSACTIONS", fault(api="EndTxn", error="CONCURRENT_TRANSACTIONS")),
    Case("EndTxn error COORDINATOR_LOAD_IN_PROGRESS", fault(api="EndTxn", error="COORDINATOR_LOAD_IN_PROGRESS")),
    Case("EndTxn error INVALID_PRODUCER_EPOCH", fault(api="EndTxn", error="INVALID_PRODUCER_EPOCH"), may_fail=True),
)


@dataclass
class Row:
    """The reactions of the clients; a row of the table."""

    kind: str
    case: str
    outcomes: dict[str, str] = field(default_factory=dict)
    """Client -> its outcome."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("an Ottla of its own, in which faults can be declared")
    rows: list[Row] = []
    with TemporaryDirectory() as data, ottla.Broker(Path(data), nodes=NODES, overrides=OPTIONS) as broker:
        for kind, cases, act in (
            ("idempotent producer", PRODUCED, partial(produced, idempotent=True)),
            ("producer", [case for case in PRODUCED if case.duplicates], partial(produced, idempotent=False)),
            ("consumer in a group", CONSUMED, consumed),
            ("transaction", COMMITTED, committed),
        ):
            for case in cases:
                if options.quick and (not case.is_quick or kind == "producer"):
                    continue
                if options.rest.only and options.rest.only not in f"{kind}: {case.name}":
                    continue
                row = Row(kind, case.name)
                rows.append(row)
                for number, client in enumerate(CLIENTS):
                    topic = f"{kind}-{case.name}-{client}".replace(" ", "-")
                    topic = "".join(each for each in topic if each.isascii() and (each.isalnum() or each in "-_"))
                    broker.create_topic(topic, 1, replicas=NODES)
                    try:
                        row.outcomes[client] = act(suite, broker, case, topic, number)
                    except Exception as error:  # noqa: BLE001 - the other clients run all the same
                        row.outcomes[client] = f"{type(error).__name__}: {error}"
                        suite.check(f"{client}: {case.name}: to its end", False, row.outcomes[client])
                    broker.clear_faults()
    print_table(rows)


CLIENTS = tuple(each.client for each in PRODUCERS)


def produced(suite: Suite, broker: ottla.Broker, case: Case, topic: str, number: int, *, idempotent: bool) -> str:
    """Have a producer that has sent one record meet the trouble with twenty more, and send one more after it."""
    producer: Producer = PRODUCERS[number](broker.bootstrap, topic, idempotent=idempotent)
    what = f"{producer.client}, {'idempotent' if idempotent else 'not idempotent'}: {case.name}"
    told: dict[bytes, str] = {}
    if case.name.startswith("Metadata"):
        end = case.trouble(broker, topic)
        told |= producer.send([b"first"])
    else:
        told |= producer.send([b"first"])
        end = case.trouble(broker, topic)
    told |= producer.send([b"%d" % n for n in range(RECORDS)])
    end()
    told |= producer.send([b"last"])
    producer.close()
    found = Counter(record.value for record in broker.records(topic))
    acknowledged = {value for value, error in told.items() if not error}
    lost = acknowledged - found.keys()
    twice = {value for value, count in found.items() if count > 1}
    errors = Counter(error for error in told.values() if error)
    suite.equal(f"{what}: nothing acknowledged is lost", set(), lost)
    if idempotent:
        suite.equal(f"{what}: no record is duplicated", set(), twice)
    is_its_own = not idempotent and producer.client in FAULTS_OF_CLIENTS.get(case.name, {})
    if not case.may_fail and not is_its_own:
        suite.equal(f"{what}: all is acknowledged", {}, dict(errors))
    order = [record.value for record in broker.records(topic)]
    if idempotent and not errors:
        suite.equal(f"{what}: in order", [b"first", *(b"%d" % n for n in range(RECORDS)), b"last"], order)
    return _said(len(acknowledged), len(told), len(lost), len(twice), errors)


def consumed(suite: Suite, broker: ottla.Broker, case: Case, topic: str, number: int) -> str:
    """Have a consumer that has joined and read one batch meet the trouble, while more records arrive."""
    first, rest = [b"f%d" % n for n in range(5)], [b"%d" % n for n in range(RECORDS)]
    broker.produce_all(topic, [(None, value) for value in first])
    is_before = case.name.split()[0] in ("ListOffsets", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch")
    end = case.trouble(broker, topic) if is_before else None
    consumer: Consumer = CONSUMERS[number](broker.bootstrap, topic, f"of-{topic}")
    what = f"{consumer.client}: {case.name}"
    try:
        suite.check(f"{what}: reads at first", until(lambda: set(first) <= set(consumer.values)), said_of(consumer))
        if end is None:
            end = case.trouble(broker, topic)
        # A fetch that is already waiting meets no fault; the next one does.
        for some in (rest[:5], rest[5:]):
            broker.produce_all(topic, [(None, value) for value in some])
            until(lambda some=some: set(some) <= set(consumer.values), 3.0)
        reads_on = until(lambda: set(rest) <= set(consumer.values))
        suite.check(f"{what}: reads on to the end", reads_on, said_of(consumer))
        if case.name.startswith("Heartbeat"):
            until(lambda: all(each.hits for each in broker.faults()))
        end()
    finally:
        consumer.stop()
    count = Counter(consumer.values)
    twice = sum(more - 1 for more in count.values())
    if not case.duplicates:
        suite.equal(f"{what}: nothing twice", 0, twice)
    errors = said_of(consumer)
    return (
        f"read {len(count)} of {len(first) + len(rest)}"
        + (f", {twice} twice" if twice else "")
        + (f"; {errors}" if errors else "")
    )


def said_of(consumer: Consumer) -> str:
    return ", ".join(f"{name} ×{times}" for name, times in Counter(consumer.errors).items())


def committed(suite: Suite, broker: ottla.Broker, case: Case, topic: str, number: int) -> str:
    """Run a transaction whose end meets the trouble, and another one after it."""
    producer = TRANSACTIONAL[number](broker.bootstrap, f"of-{topic}")
    what = f"{producer.client}: {case.name}"
    said = []
    for value in (b"first", b"second", b"third"):
        end = case.trouble(broker, topic) if value == b"second" else None
        try:
            producer.begin()
            producer.send((topic, 0), value)
            producer.commit()
            said.append("committed")
        except Exception as error:  # noqa: BLE001 - any exception of the client goes into the table
            said.append(name_of(error))
        if end is not None:
            end()
    producer.close()
    found = Counter(record.value for record in broker.records(topic, isolation="read_committed"))
    expected = {value for value, how in zip((b"first", b"second", b"third"), said, strict=True) if how == "committed"}
    suite.equal(
        f"{what}: each committed record occurs once", dict.fromkeys(expected, 1), {v: found[v] for v in expected}
    )
    suite.check(f"{what}: no record is duplicated", max(found.values()) == 1, found)
    if not case.may_fail:
        suite.equal(f"{what}: all is committed", ["committed"] * 3, said)
    return ", ".join(said[1:])


FAULTS_OF_CLIENTS: dict[str, dict[str, str]] = {
    case: {"aiokafka": "without idempotence it gives up a batch with the time-out of its first request"}
    for case in ("Produce delay 4 s, over the time-out", "Produce drop_response")
}
"""Case and client -> the reason why the client gives up unnecessarily."""


def _said(acknowledged: int, sent: int, lost: int, twice: int, errors: Counter[str]) -> str:
    parts = [f"{acknowledged} of {sent} acknowledged", f"{lost} lost", f"{twice} twice"]
    return ", ".join(parts) + (f"; {', '.join(f'{name} ×{times}' for name, times in errors.items())}" if errors else "")


def print_table(rows: list[Row]) -> None:
    """Print the table as Markdown, for the README."""
    print(f"\n| who | fault | {' | '.join(CLIENTS)} |\n|---|---|{'---|' * len(CLIENTS)}")
    for row in rows:
        print(f"| {row.kind} | {row.case} | {' | '.join(row.outcomes[client] for client in CLIENTS)} |")
    print()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="TEXT", help="rows of the table that contain this in their first two columns")


if __name__ == "__main__":
    sys.exit(run_suite("faults", body, doc=__doc__, more_arguments=arguments))
