"""The releases of Apache Kafka whose Java clients and data directories the suites use."""

import argparse

from .brokers.apache_kafka import VERSION
from .suite import Options

RELEASES = (VERSION, "4.3.1")
"""The release that Ottla follows, and the one before, which many users still have."""


def add_release(parser: argparse.ArgumentParser) -> None:
    """Add the option that `releases` reads."""
    shown = "release of Apache Kafka's clients and files; may be repeated (default: all, with --quick the first)"
    parser.add_argument("--release", action="append", choices=RELEASES, help=shown)


def releases(options: Options) -> tuple[str, ...]:
    """Return the releases that the caller names; without any all of them, or the first for the short variant."""
    return tuple(options.rest.release or (RELEASES[:1] if options.quick else RELEASES))
