"""Apache Kafka's own `kafka-transactions` on a transaction that no coordinator knows: it finds it, and aborts it.

Such a transaction is what a batch leaves that arrives after its transaction was aborted, on brokers that do not ask the
coordinator (KIP-890 part 1): so that is switched off, and the batch is a request built by hand.
"""

from ..support.brokers.apache_kafka import tool
from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.steps import create_topic
from ..support.suite import Options, Suite
from .differential.batches import Sent, encode
from .differential.wire import Wire

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "hanging"
LATEST = -1
TIMESTAMP_MS = 1_700_000_000_000


def judge_hanging_transaction(suite: Suite, options: Options) -> None:
    overrides = {"transaction.partition.verification.enable": "false"}
    with OttlaProcess(overrides=overrides, keep=options.keep) as broker:
        create_topic(broker.bootstrap, TOPIC, partitions=1, retention_ms="-1")
        wire = Wire(broker.bootstrap)
        try:
            wire.find_transaction_coordinator(TOPIC)
            _, producer_id, epoch = wire.init_producer_id(TOPIC)
            batch = encode(
                [Sent(b"k", b"v", TIMESTAMP_MS)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=True,
            )
            suite.check("a batch opens a transaction that no client ends", wire.produce(TOPIC, batch, TOPIC)[0] == 0)
            judge_tool(suite, broker, wire, producer_id)
        finally:
            wire.close()


def judge_tool(suite: Suite, broker: OttlaProcess, wire: Wire, producer_id: int) -> None:
    where = ("--topic", TOPIC, "--partition", "0")
    described = run(broker, "describe-producers", *where)
    suite.check("kafka-transactions describes its producer", described[0][0] == str(producer_id), described)
    found = run(broker, "find-hanging", "--topic", TOPIC, "--broker-id", "0", "--max-transaction-timeout", "0")
    suite.check("kafka-transactions finds it", [row[:3] for row in found] == [[TOPIC, "0", str(producer_id)]], found)
    stable, end = (wire.fetch(TOPIC, 1)[1].last_stable, wire.offset_at(TOPIC, LATEST)[1])
    suite.check("until then no later record is stable", (stable, end) == (0, 1), (stable, end))
    run(broker, "abort", *where, "--start-offset", "0")
    stable, end = (wire.fetch(TOPIC, 1)[1].last_stable, wire.offset_at(TOPIC, LATEST)[1])
    suite.check("kafka-transactions aborts it", (stable, end) == (2, 2), (stable, end))
    left = run(broker, "find-hanging", "--topic", TOPIC, "--broker-id", "0", "--max-transaction-timeout", "0")
    suite.check("and finds none any more", left == [], left)


def run(broker: OttlaProcess, *arguments: str) -> list[list[str]]:
    """Return the rows that the tool prints, without their heading."""
    done = tool(TRANSACTIONS, "--bootstrap-server", broker.bootstrap, *arguments)
    if done.returncode:
        raise RuntimeError(f"kafka-transactions {' '.join(arguments)}: {done.stderr[-500:]}")
    return [line.split() for line in done.stdout.splitlines()[1:] if line.strip()]
