"""The latency of a client while the cleaner works, in interleaved runs: compared with Apache Kafka, and with an idle broker.

A client in a process of its own produces one record a request, 500 a second, open loop, acks=1.
"""

import argparse
import sys

from ottla.storage.kernel import COMPILED

from ...support.suite import NotRunError, Options, Suite, run_suite
from .paced import paced
from .without_pause import without_pause


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    if not COMPILED:
        raise NotRunError("the compiled kernel: a C compiler when the package is installed")
    rounds = options.rest.rounds or (1 if options.quick else 5)
    seconds = options.rest.seconds or (3.0 if options.quick else 12.0)
    raw_bytes = (options.rest.megabytes or (64 if options.quick else 256)) * 1_000_000
    without_pause(suite, options, rounds, seconds / 3, raw_bytes)
    try:
        paced(suite, options, rounds, seconds)
    except NotRunError as error:
        suite.skip("beside Apache Kafka", f"not run: needs {error}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of each measured run under load")
    parser.add_argument(
        "--megabytes", type=int, help="of the log that is cleaned without a pause, before its first pass"
    )


if __name__ == "__main__":
    sys.exit(run_suite("bench.latency", body, doc=__doc__, more_arguments=arguments))
