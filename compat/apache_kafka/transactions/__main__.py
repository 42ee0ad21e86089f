"""The transaction APIs of Ottla and of Apache Kafka, with the same random requests, and the end of epochs.

Both brokers get each request and their answers are compared, at transaction.version 0, 1 and 2: every version of
InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions and ListTransactions, from producers
that are current, fenced, ahead or unknown. Apache Kafka writes markers after its answers, so a request with a retriable
error is repeated.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import NOBODY, Add, AddOffsets, Answer, Describe, End, Init, List, Producer, Side, Step

LEVELS = (0, 1, 2)
STEPS, STEPS_QUICK = 2_000, 200
IDS = ("x", "y")
TOPICS, PARTITIONS = ("a", "b"), 3
OVERRIDES = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "2"}
NEW = Producer(NOBODY, -1)
LAST_EPOCH = 2**15 - 2
# Words in an answer of Apache Kafka that may become another one soon.
NOT_YET = ("CONCURRENT_TRANSACTIONS", "Prepare", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    with both(LEVELS[0]) as sides:
        known = {transactional_id: [Producer(0, 0)] for transactional_id in IDS}
        for level in LEVELS:
            for side in sides:
                side.raise_to(level)
            random_requests(suite, level, *sides, STEPS_QUICK if options.quick else STEPS, known)
    if not options.quick:
        for level in (0, 2):
            with both(level) as (ottla, kafka):
                suite.equal(
                    f"transaction.version {level}: the end of epochs", exhaust(kafka, level), exhaust(ottla, level)
                )


@contextmanager
def both(level: int) -> Iterator[tuple[Side, Side]]:
    """Ottla and Apache Kafka with this transaction.version, each with the topics."""
    with ExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "server.properties"
        config.write_text(f"# feature.transaction.version={level}\n")
        ottla = stack.enter_context(OttlaProcess(arguments=("--config", str(config)), overrides=OVERRIDES))
        kafka = stack.enter_context(ApacheKafkaProcess(features={"transaction.version": level}, overrides=OVERRIDES))
        sides = Side(ottla.bootstrap), Side(kafka.bootstrap)
        for side in sides:
            side.prepare(TOPICS, PARTITIONS, IDS)
        yield sides


def random_requests(
    suite: Suite, level: int, ottla: Side, kafka: Side, count: int, known: dict[str, list[Producer]]
) -> None:
    """Compare a level. `known` are the producers of each transactional id so far, the last one its current."""
    rng = random.Random(level)
    differences = 0
    for number in range(count):
        step = random_step(rng, level, known)
        ours = ottla.ask(step)
        theirs = kafka.ask_until(step, lambda answer: answer == ours or not tells_to_wait(step, answer))  # noqa: B023
        if ours != theirs:
            differences += 1
            suite.check(f"transaction.version {level}, request {number}: {step}", False, f"{theirs} became {ours}")
        if isinstance(step, Init | End) and ours[0] == "NONE" and ours[1] != NEW:
            known[step.transactional_id].append(ours[1])
    suite.check(f"transaction.version {level}: {count} random requests", differences == 0)


def tells_to_wait(step: Step, answer: Answer) -> bool:
    # A list by state leaves out a transaction between two states.
    return isinstance(step, List) or any(word in repr(answer) for word in NOT_YET)


def random_step(rng: random.Random, level: int, known: dict[str, list[Producer]]) -> Step:
    transactional_id = rng.choice(IDS)
    producer = random_producer(rng, known[transactional_id])
    match rng.choices(["init", "add", "offsets", "end", "describe", "list"], (12, 33, 7, 30, 13, 5)):
        case ["init"]:
            present = rng.choice([NEW, NEW, producer])
            version = rng.randrange(6) if present == NEW else rng.randrange(3, 6)
            name = transactional_id if rng.random() < 0.97 else ""
            return Init(name, version, rng.choice([60_000, 60_000, 60_000, 0, 900_001]), present)
        case ["add"]:
            places = {(rng.choice(TOPICS), rng.randrange(PARTITIONS)) for _ in range(rng.randint(1, 3))}
            extra = rng.choices([(), (("nope", 0),), (("__consumer_offsets", 0),)], (92, 5, 3))[0]
            version = rng.randrange(6)
            if version >= 4 and extra and extra[0][0] == "__consumer_offsets":
                extra = ()  # refused here on purpose (docs/differences.md)
            # At level 0 Apache Kafka fails at what only brokers of level 2 send.
            verify_only = version >= 4 and (level == 0 or rng.random() < 0.4)
            return Add(transactional_id, version, producer, (*sorted(places), *extra), verify_only)
        case ["offsets"]:
            return AddOffsets(transactional_id, rng.randrange(5), producer)
        case ["end"]:
            version = rng.choice([0, 1, 2, 3, 4, 5, 5, 5]) if level == 2 else rng.randrange(5)
            return End(transactional_id, version, producer, rng.random() < 0.5)
        case ["describe"]:
            return Describe(rng.choice([transactional_id, transactional_id, transactional_id, "nobody"]))
    version = rng.randrange(3)
    pattern = rng.choice([None, "", "x", "y.*", "[", "(?=x)"]) if version == 2 else None
    return List(version, rng.choice([(), ("Ongoing",), ("CompleteAbort", "Foo")]), pattern)


def random_producer(rng: random.Random, given: list[Producer]) -> Producer:
    """Mostly the current one."""
    current = given[-1]
    if rng.random() < 0.75:
        return current
    beside = [current._replace(epoch=current.epoch + 1), current._replace(epoch=current.epoch - 1), Producer(77, 0)]
    return rng.choice([*given[-4:], *beside])


def exhaust(side: Side, level: int) -> list[Answer]:
    """Bring two ids to their last epoch; then end a transaction of one, and fence the other."""
    answers: list[Answer] = []

    def ask(step: Step) -> Answer:
        answers.append(side.ask_until(step, lambda answer: not tells_to_wait(step, answer)))
        return answers[-1]

    def start(transactional_id: str, present: Producer = NEW) -> Init:
        return Init(transactional_id, 5, 60_000, present)

    last = {}
    for name in IDS:
        while (answer := side.ask_until(start(name), lambda answer: answer[0] == "NONE"))[1].epoch < LAST_EPOCH:
            pass
        last[name] = answer[1]
    for name in IDS:  # not before both have their last epoch, as a transaction is aborted after a minute
        ask(Add(name, 3, last[name], (("a", 0),), verify_only=False))
    version = 5 if level == 2 else 4
    for commit in (True, True, False):
        ask(End("x", version, last["x"], commit))
        ask(Describe("x"))
    side.ask(start("y"))
    for name in IDS:
        ask(Describe(name))
        # Of a producer that was fenced at its last epoch Apache Kafka makes an UNKNOWN_SERVER_ERROR below version 2.
        presents = [NEW] if level < 2 and name == "y" else [last[name], last[name], NEW]
        for present in presents:
            ask(start(name, present))
            ask(Describe(name))
    return answers


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.transactions", body, doc=__doc__))
