"""`ottla serve`: its options."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from .frame.errors import WrongCallError
from .frame.options import number
from .frame.parser import Command, Parser

USERS = "OTTLA_USER"
"""In the environment; the image's containers read it as any option."""

NOTES = """\
An option has the value of the strongest source that gives one: --override, then the flags here, then the environment
(KAFKA_LOG_RETENTION_MS for log.retention.ms), then --config, then --profile, then Apache Kafka's default.

One line `ready HOST:PORT[,HOST:PORT...]` on standard output says that all nodes serve.
SIGTERM, SIGINT and SIGHUP stop the broker cleanly, with exit code 0; further ones change nothing.

Lines on standard input stop and start single nodes, and are answered on standard output:
  stop ID      hand over what node ID leads, end its connections: stopped ID
  start ID     serve on the same ports again: started ID

Comment lines of the --config file say what has no property:
  # nodes=3                          how many broker ids to play
  # node.1.listeners=NAME://H:PORT   listeners, advertised.listeners, broker.rack of one node
  # cluster.id=ID                    for a new data directory
  # controllers=ID@HOST:PORT,...     where controllers answer tools that ask one, if listeners do not name them
  # controller.listener=NAME         the name of their listener; CONTROLLER by default
  # metadata.version=4.0-IV3         finalized features as of that version, the newest by default
  # feature.NAME=LEVEL               transaction.version (0 to 2) or group.version (0 or 1); the newest by default
"""


def add_options(parser: Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a server.properties of Apache Kafka, read as it is")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where logs are kept (log.dirs; default: ottla/logs in $XDG_STATE_HOME, else in ~/.local/state)",
    )
    parser.add_argument(
        "--profile",
        choices=("kafka", "dev"),
        default="kafka",
        help="kafka: Apache Kafka's defaults (the default); dev: quick reactions for development and tests, on loopback",
    )
    parser.add_argument(
        "--listener",
        metavar="[NAME://]HOST:PORT",
        action="append",
        help="listen here (port 0: a free one; no HOST: everywhere); repeat for more, each with its own NAME (default: :9092,"
        " with --profile dev localhost:9092)",
    )
    parser.add_argument("--nodes", type=number(1), metavar="N", help="play N broker ids, each on its own port")
    parser.add_argument(
        "--override", metavar="NAME=VALUE", action="append", default=[], help="set any broker option; repeatable"
    )
    parser.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        help="also serve control calls over HTTP: on a loopback address, or anywhere with a token (default: off)",
    )
    parser.add_argument(
        "--admin-token-file",
        metavar="FILE",
        help="what clients of --admin have to know stands in FILE (default: OTTLA_ADMIN_TOKEN of the environment, if set)",
    )
    beginning_options(parser)
    parser.add_argument("--hello", action="store_true", help="also print a client snippet to try")
    parser.add_argument("--verbose", action="store_true", help="log more to standard error")


def beginning_options(parser: Parser) -> None:
    """What a broker plays, what it begins with, and who gets clients' metrics."""
    parser.add_argument(
        "--telemetry",
        metavar="DIR",
        help="ask clients for metrics (`kafka-client-metrics`), and write their reports to DIR",
    )
    parser.add_argument(
        "--user",
        metavar="NAME:PASSWORD[:MECHANISM]|@FILE",
        action="append",
        default=[],
        help="have clients log in, as this user or another one that is given: by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, or by"
        " the one that is named; a --listener without a NAME takes logins then, and so does the default one; @FILE has a user in"
        f" each line, or a comment after #, which no list of processes shows (default: ${USERS}, a user in each line)",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="speak TLS, with certificates of an authority that is made for this data directory and kept in it; a --listener"
        " without a NAME does then, and what clients take is printed (of `serve` with --hello)",
    )
    parser.add_argument(
        "--emulate", metavar="RELEASE", help="play Apache Kafka 2.8 to 4.3: its APIs, versions and features"
    )
    parser.add_argument(
        "--seed",
        metavar="FILE",
        help="begin with the topics, records, groups and hard cases of a YAML or JSON file (see `ottla seed --help`), and after"
        " each reset; where some of it is there already, nothing is done",
    )


def users_given(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The values of --user, or what the environment has in their place."""
    return options.user or [line for line in environment.get(USERS, "").splitlines() if line.strip()]


def run(options: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    options.user = users_given(options)
    log_to_standard_error(logging.DEBUG if options.verbose else logging.INFO)
    with loading():
        from .serve import serve, snippet

    return serve(options, snippet if options.hello else None, environment=os.environ)


AFTER_PYTHON = (3, 14)
"""The newest Python that all run-time dependencies have wheels for."""
WITHOUT_WHEELS = {"re2": "google-re2", "lz4": "lz4", "zstandard": "zstandard"}
"""Modules that had no wheel for the next Python when this was written, and their packages."""


def missing_packages(
    python: tuple[int, int] = sys.version_info[:2], find: Callable[[str], object] = find_spec
) -> str | None:
    """One line that names the packages that a start lacks on a Python newer than AFTER_PYTHON; None if it lacks none."""
    if python <= AFTER_PYTHON:
        return None
    missing = [package for module, package in WITHOUT_WHEELS.items() if find(module) is None]
    if not missing:
        return None
    newest = ".".join(map(str, AFTER_PYTHON))
    return (
        f"missing packages: {', '.join(missing)}: they had no wheels for Python {'.'.join(map(str, python))} when this Ottla was"
        f" released; use Python 3.11 to {newest}, or compile them"
    )


@contextmanager
def loading() -> Iterator[None]:
    """While what a broker is made of is loaded, in a process of its own: all of it stays, and no collection need look at it, but for
    one at the end: what is frozen with the rest would be kept for good.

    WrongCallError: A package is missing on a Python that is too new.
    """
    if (missing := missing_packages()) is not None:
        raise WrongCallError(missing)
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def log_to_standard_error(level: int) -> None:
    """What is at least of that level."""
    from ..runtime.floods import LogLines  # No help text shall wait for it.

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


COMMAND = Command("serve", "run a broker, with one or several nodes in this process", run, add_options, NOTES)
