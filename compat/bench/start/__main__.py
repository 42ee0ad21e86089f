"""Start and idle: from the command to the first successful produce, and idle memory; compared with Apache Kafka.

Both start on an existing directory of their own (Apache Kafka's is formatted before). The produce is librdkafka's,
to a topic that it creates by producing.
"""

import argparse
import subprocess
import sys
import time

from confluent_kafka import Producer

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.clients.raw import has_brokers
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, Row, print_table

START_BOUND_S, MEMORY_BOUND_MB = 0.5, 50
KAFKA_ON_A_QUIET_MACHINE_S = 3.0  # 2.06 s where the bound was set


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    runs = options.rest.runs or (1 if options.quick else 5)
    rest_s = 2 if options.quick else 5
    rows = {
        "ready": Row("start to ready", "s"),
        "produce": Row("start to first produce", "s", *((0.25, 0.125) if not options.quick else ())),
        "rss": Row(f"resident memory idle, {rest_s} s after start", "MB", 0.125, 0.1),
        "cpu": Row("idle CPU", "%"),
        "stop": Row("stop", "s"),
    }
    for _ in range(runs):
        for broker in (ApacheKafkaProcess(heap="1g", keep=options.keep), OttlaProcess(keep=options.keep)):
            measure(rows, broker, rest_s)
            broker.dispose()
    print_table(suite, list(rows.values()))
    most = max(rows["rss"].values[OTTLA])
    suite.check(
        f"resident memory idle below {MEMORY_BOUND_MB} MB in each run", most < MEMORY_BOUND_MB, f"{most:.1f} MB"
    )
    in_thread = sorted(start_in_a_thread() for _ in range(runs))
    slowest = max(rows["produce"].values[OTTLA])
    if options.quick:
        # Seconds of one start mean nothing on a busy machine.
        suite.note(f"slowest start to first produce {slowest:.2f} s; in a thread of the test process {in_thread} ms")
        return
    what = f"start to first produce below {START_BOUND_S} s in each run"
    if slowest >= START_BOUND_S and min(rows["produce"].values[KAFKA]) > KAFKA_ON_A_QUIET_MACHINE_S:
        suite.skip(what, f"{slowest:.2f} s, on a machine so busy that Apache Kafka was slow as well")
    else:
        suite.check(what, slowest < START_BOUND_S, f"{slowest:.2f} s")
    suite.check("started in a thread of the test process within 50 ms (median)", in_thread[runs // 2] < 50, in_thread)


def measure(rows: dict[str, Row], broker: BrokerProcess, rest_s: float) -> None:
    """Measure one start, first produce, rest and stop."""
    if not broker.addresses:
        broker.addresses = [f"127.0.0.1:{free_port()}"]
    broker.data.mkdir(parents=True, exist_ok=True)
    command = broker.command()  # formats Apache Kafka's directory
    with open(broker.output_path, "wb") as output:
        started_s = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=broker.work)
    broker.process = process
    try:
        while not has_brokers("127.0.0.1", broker.port):
            if process.poll() is not None or time.perf_counter() - started_s > 60:
                raise RuntimeError(f"did not start:\n{broker.output_tail()}")
            time.sleep(0.005)
        rows["ready"].values[broker.kind].append(time.perf_counter() - started_s)
        first_produce(broker.bootstrap)
        rows["produce"].values[broker.kind].append(time.perf_counter() - started_s)
        time.sleep(rest_s)
        before_s = broker.cpu_seconds()
        time.sleep(rest_s)
        rows["cpu"].values[broker.kind].append((broker.cpu_seconds() - before_s) / rest_s * 100)
        rows["rss"].values[broker.kind].append(broker.resident_bytes() / 1e6)
        stopping_s = time.perf_counter()
        broker.stop()
        rows["stop"].values[broker.kind].append(time.perf_counter() - stopping_s)
    finally:
        if process.poll() is None:
            broker.kill()


def first_produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    answers: list[object] = []
    producer.produce("first", b"x", on_delivery=lambda error, _: answers.append(error))
    while not answers:
        producer.poll(0.01)
    if answers[0] is not None:
        raise RuntimeError(f"the first produce failed: {answers[0]}")


def start_in_a_thread() -> float:
    """Return milliseconds until `ottla.Broker()` has an address, in a fresh interpreter, the import not counted."""
    program = (
        "import time, ottla; kind = ottla.Broker; started = time.perf_counter()\n"
        "with kind() as broker:\n    print((time.perf_counter() - started) * 1000, broker.bootstrap)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return round(float(done.stdout.split()[0]), 1)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int)


if __name__ == "__main__":
    sys.exit(run_suite("bench.start", body, doc=__doc__, more_arguments=arguments))
