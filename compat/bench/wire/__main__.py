"""Produce, fetch and round trips on the wire: Ottla compared with Apache Kafka, in interleaved rounds of one run.

librdkafka is the client of both. The client is the limit for small records, so the main figure is the broker's
CPU time per GB; throughput is reported as well. One-record round trips go over a bare socket, acks=1, after 2 000
requests on that connection.
"""

import argparse
import statistics
import sys

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..table import KAFKA, OTTLA, Row, print_table
from .load import Load, Measured, round_trips

SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    arguments = options.rest
    rounds = arguments.rounds or (1 if options.quick else 5)
    bytes_a_round = (
        arguments.megabytes * 1_000_000 if arguments.megabytes else (25_000_000 if options.quick else 200_000_000)
    )
    rows = make_rows(arguments.codec, quick=options.quick)
    with ApacheKafkaProcess(heap="1g", keep=options.keep) as kafka, OttlaProcess(keep=options.keep) as ottla:
        sides: dict[str, BrokerProcess] = {KAFKA: kafka, OTTLA: ottla}
        for broker in sides.values():  # the JVM compiles what it runs often: not measured
            for size in SIZES.values():
                Load(broker, size, bytes_a_round // 4, arguments.codec).run()
        produced = {side: len(SIZES) * bytes_a_round / 4 for side in sides}
        for number in range(rounds):
            order = list(sides.items())[:: 1 if number % 2 else -1]
            for name, size in SIZES.items():
                for side, broker in order:
                    note(rows, name, side, Load(broker, size, bytes_a_round, arguments.codec).run())
                    produced[side] += bytes_a_round
            for side, broker in order:
                micros = round_trips(broker, 2_000, 2_000 if options.quick else 10_000)
                rows["p50"].values[side].append(statistics.median(micros))
                rows["p99"].values[side].append(statistics.quantiles(micros, n=100)[98])
        for side, broker in sides.items():
            rows["rss"].values[side].append(broker.resident_bytes() / 1e6)
        suite.note(f"{rounds} rounds of {bytes_a_round / 1e6:.0f} MB a size, codec {arguments.codec}")
        suite.note(f"produced in all: {produced[OTTLA] / 1e9:.1f} GB to each")
    print_table(suite, list(rows.values()))


def make_rows(codec: str, *, quick: bool) -> dict[str, Row]:
    """Return the rows, with floors and aims for uncompressed records only.

    One short round says little about times, so `quick` judges memory only.
    """
    bounded = codec == "none" and not quick
    rows: dict[str, Row] = {}
    for name in SIZES:
        rows[f"produce cpu {name}"] = Row(f"produce {name}: broker CPU", "s/GB", *((1.0, 0.4) if bounded else ()))
        rows[f"produce kernel {name}"] = Row(f"produce {name}: of it in the kernel", "s/GB")
        rows[f"fetch cpu {name}"] = Row(f"fetch {name}: broker CPU", "s/GB", *((1.5, 1.0) if bounded else ()))
        rows[f"fetch kernel {name}"] = Row(f"fetch {name}: of it in the kernel", "s/GB")
        bounds = (0.8, 1.0, True) if bounded else (None, None, True)
        rows[f"produce {name}"] = Row(f"produce {name}: throughput", "MB/s", *bounds)
        rows[f"fetch {name}"] = Row(f"fetch {name}: throughput", "MB/s", *bounds)
    rows["p50"] = Row("one-record round trip p50", "us", *((1.0, 0.5) if not quick else ()))
    rows["p99"] = Row("one-record round trip p99", "us")
    # Of a short round a JVM has not met all that it keeps.
    rows["rss"] = Row("resident memory at the end", "MB", 0.12 if quick else 0.1, 0.05)
    return rows


def note(rows: dict[str, Row], name: str, side: str, measured: Measured) -> None:
    rows[f"produce cpu {name}"].values[side].append(measured.produce_cpu_s_per_gb)
    rows[f"produce kernel {name}"].values[side].append(measured.produce_kernel_s_per_gb)
    rows[f"fetch cpu {name}"].values[side].append(measured.fetch_cpu_s_per_gb)
    rows[f"fetch kernel {name}"].values[side].append(measured.fetch_kernel_s_per_gb)
    rows[f"produce {name}"].values[side].append(measured.produce_mb_per_s)
    rows[f"fetch {name}"].values[side].append(measured.fetch_mb_per_s)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int, help="per round, size and side")
    parser.add_argument("--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])


if __name__ == "__main__":
    sys.exit(run_suite("bench.wire", body, doc=__doc__, more_arguments=arguments))
