"""The steps that must work with an installed Ottla, wherever it is installed; the suites of this folder share them."""

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.steps import CODECS, create_topic, read_partitions
from ..support.environments import run
from ..support.suite import Suite

CLEANED = Path(__file__).with_name("cleaned.py")


class InstalledOttla(OttlaProcess):
    """The console command of another environment: `ottla` is what is typed for it."""

    def __init__(self, ottla: Sequence[str | Path]) -> None:
        super().__init__()
        self.ottla = list(map(str, ottla))

    def command(self) -> list[str]:
        return [*self.ottla, *super().command()[1:]]


class Dev(InstalledOttla):
    """`ottla dev`, which has its own data directory."""

    def command(self) -> list[str]:
        return [*self.ottla, "dev", "--listener", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


def works(
    suite: Suite, where: str, python: Sequence[str | Path], ottla: Sequence[str | Path], kind: str, cwd: Path
) -> None:
    """Check a kernel of this kind, a log that it cleans in a thread, and `ottla serve` with this environment's librdkafka."""
    version = run([*ottla, "--version"], cwd)
    suite.check(f"{where}: its kernel is {kind}", f"({kind} " in version.stdout, version.stdout + version.stderr[-500:])
    done = run([*python, CLEANED], cwd)
    shown = done.stdout.strip() + done.stderr[-500:]
    suite.check(f"{where}: a log that is cleaned has the newest value of each key", done.returncode == 0, shown)
    with InstalledOttla(ottla) as broker:
        produce_and_consume(suite, where, broker.bootstrap)
        done = run([*ottla, "topics", "--bootstrap", broker.bootstrap, "list"], cwd)
        rows = [line.split()[:2] for line in done.stdout.splitlines()]
        suite.check(f"{where}: ottla topics list", ["t", str(len(CODECS))] in rows, done.stdout + done.stderr)
        suite.equal(f"{where}: SIGTERM stops it cleanly", 0, broker.stop())
        said = [line for line in broker.output_path.read_text().splitlines() if "kernel" in line]
        suite.equal(f"{where}: it says once that its kernel is slow, if it is", int(kind == "interpreted"), len(said))


def produce_and_consume(suite: Suite, where: str, bootstrap: str) -> None:
    create_topic(bootstrap, "t", partitions=len(CODECS))
    for partition, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 4})
        for number in range(100):
            producer.produce("t", key=f"k{number}", value=b"v" * 100, partition=partition)
        producer.flush(30)
    found = read_partitions(bootstrap, [("t", partition) for partition in range(len(CODECS))])
    for partition, codec in enumerate(CODECS):
        keys = [record.key for record in found["t", partition]]
        expected = [f"k{number}".encode() for number in range(100)]
        suite.equal(f"{where}: 100 records in {codec} come back", expected, keys)
