"""Options of `ottla serve`."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from .frame.errors import wrong_call
from .frame.options import number
from .frame.parser import Command, Parser

USERS = "OTTLA_USER"
"""Environment variable for --user; the image's containers read it like any option."""

NOTES = """\
Precedence of options, highest first: --override, the other flags, the environment (KAFKA_LOG_RETENTION_MS for
log.retention.ms), --config, --profile, Apache Kafka's default.

The line `ready HOST:PORT[,HOST:PORT...]` on standard output means that all nodes are serving.
SIGTERM, SIGINT and SIGHUP stop the broker cleanly, with exit code 0; repeated signals are ignored.

Lines on standard input stop and start single nodes; each is confirmed on standard output:
  stop ID      hand over the leaderships of node ID and close its connections; prints `stopped ID`
  start ID     serve on the same ports again; prints `started ID`

Comment lines of the --config file set what no property covers:
  # nodes=3                          number of brokers, as --nodes
  # node.1.listeners=NAME://H:PORT   listeners, advertised.listeners, broker.rack of one node
  # cluster.id=ID                    for a new data directory
  # controllers=ID@HOST:PORT,...     controller addresses for tools that need one, if not among the listeners
  # controller.listener=NAME         name of the controller listener (default: CONTROLLER)
  # metadata.version=4.0-IV3         finalized features as of this version (default: the newest)
  # feature.NAME=LEVEL               transaction.version (0 to 2) or group.version (0 or 1) (default: the newest)
"""


def add_options(parser: Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="server.properties of Apache Kafka, used unchanged")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data directory (log.dirs; default: ottla/logs in $XDG_STATE_HOME, else in ~/.local/state)",
    )
    parser.add_argument(
        "--profile",
        choices=("kafka", "dev"),
        default="kafka",
        help="kafka: Apache Kafka's defaults (default); dev: short delays for development and tests, on loopback",
    )
    parser.add_argument(
        "--listener",
        metavar="[NAME://]HOST:PORT",
        action="append",
        help="address to listen on (port 0: a free port; no HOST: all interfaces); repeatable, each with its own NAME"
        " (default: :9092, with --profile dev localhost:9092)",
    )
    parser.add_argument(
        "--nodes",
        type=number(1),
        metavar="N",
        help="number of brokers in this process, each with its own id and port (default: 1)",
    )
    parser.add_argument(
        "--override", metavar="NAME=VALUE", action="append", default=[], help="broker option to set; repeatable"
    )
    parser.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        help="address of the admin API over HTTP; other than loopback, it requires a token (default: off)",
    )
    parser.add_argument(
        "--admin-token-file",
        metavar="FILE",
        help="file with the bearer token for the admin API (default: the token in $OTTLA_ADMIN_TOKEN, if set)",
    )
    parser.add_argument(
        "--schema-registry",
        metavar="[HOST:]PORT",
        help="address of the schema registry over HTTP; other than loopback, it requires the admin API's token (default: off)",
    )
    beginning_options(parser)
    parser.add_argument("--hello", action="store_true", help="print example client code on start")
    parser.add_argument("--verbose", action="store_true", help="log at level DEBUG to standard error (default: INFO)")


def beginning_options(parser: Parser) -> None:
    """Add the options of emulation, initial content, users and client metrics."""
    parser.add_argument(
        "--telemetry",
        metavar="DIR",
        help="collect client metrics (`kafka-client-metrics`) and write the reports to DIR",
    )
    parser.add_argument(
        "--user",
        metavar="NAME:PASSWORD[:MECHANISM]|@FILE",
        action="append",
        default=[],
        help="require SASL, and add this user; repeatable. The user may log in by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, or"
        " only by MECHANISM. Applies to the default --listener and to those without a NAME. @FILE has one user per line (# starts a"
        f" comment), and keeps passwords out of process lists (default: ${USERS}, one user per line)",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="serve TLS with a private CA that is created and kept in the data directory. Applies to the default --listener"
        " and to those without a NAME. Prints the client settings (`ottla serve` only with --hello)",
    )
    parser.add_argument(
        "--emulate",
        metavar="RELEASE",
        help="emulate a release of Apache Kafka from 2.8 to 4.4: its APIs, versions and features",
    )
    parser.add_argument(
        "--seed",
        metavar="FILE",
        help="YAML or JSON file with topics, records, groups and hard cases to create at start and after each reset (see"
        " `ottla seed --help`); nothing is created if any of them exists at start",
    )


def users_given(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the values of --user, or those of the environment variable instead."""
    return options.user or [line for line in environment.get(USERS, "").splitlines() if line.strip()]


def run(options: argparse.Namespace) -> int:
    """Serve until a signal is received."""
    options.user = users_given(options)
    log_to_standard_error(logging.DEBUG if options.verbose else logging.INFO)
    with loading():
        from .serve import serve, snippet

    return serve(options, snippet if options.hello else None, environment=os.environ)


AFTER_PYTHON = (3, 14)
"""The newest Python for which all run-time dependencies have wheels."""
WITHOUT_WHEELS = {"re2": "google-re2", "lz4": "lz4", "zstandard": "zstandard"}
"""Modules without a wheel for the next Python at the time of writing, and their packages."""


def missing_packages(
    python: tuple[int, int] = sys.version_info[:2], find: Callable[[str], object] = find_spec
) -> str | None:
    """Return one line that names the packages that a start lacks on a Python newer than AFTER_PYTHON; None if it lacks none."""
    if python <= AFTER_PYTHON:
        return None
    missing = [package for module, package in WITHOUT_WHEELS.items() if find(module) is None]
    if not missing:
        return None
    newest = ".".join(map(str, AFTER_PYTHON))
    return (
        f"missing packages: {', '.join(missing)}: no wheels for Python {'.'.join(map(str, python))} existed when this version"
        f" was released; use Python 3.11 to {newest}, or compile them"
    )


@contextmanager
def loading() -> Iterator[None]:
    """Load the broker's modules in the block, in a process of its own, without garbage collections, since all modules stay.

    One collection runs at the end, since garbage that is frozen with the rest would be kept for good. CommandError: a
    package is missing on a Python that is too new.
    """
    if (missing := missing_packages()) is not None:
        raise wrong_call(missing)
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def log_to_standard_error(level: int) -> None:
    """Log messages of at least this level to standard error."""
    from ..runtime.log_rate_limit import LogLines  # imported here to keep it out of help texts

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


COMMAND = Command("serve", "run a broker, with one or several nodes in this process", run, add_options, NOTES)
