"""`ottla seed`: create topics, records, committed offsets and hard cases from a file, all of it or nothing."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..frame.errors import wrong_call
from ..frame.parser import Command, Parser
from ..frame.printing import show, show_json
from .asking import Admin, show_answer, show_rows, with_admin_options

SEED_BYTES_MAX = 4 << 20
NOTES = """\
  topics:
    orders:
      partitions: 3
      configs: {cleanup.policy: compact}
      records:
        - {key: order-1, value: {json: {total: 3}}, headers: {source: web}, timestamp: -25h}
        - {key: "order-{n}", value: {hex: 00ff}, repeat: 100}
  groups:
    billing: {orders: {0: 1, 1: latest}}
  cases:
    - {name: trailing-marker, topic: t}
  schemas:
    orders-value: {type: record, name: Order, fields: [{name: total, type: int}]}
"""


def _seed(options: argparse.Namespace) -> None:
    if options.export:
        if options.file is not None:
            raise wrong_call(
                f"--export and FILE ({options.file}) cannot be combined: --export writes a seed to standard output"
            )
        show_json(Admin(options).call("GET /v1/seed"))
        return
    if options.file is None:
        raise wrong_call("missing FILE, e.g. `ottla seed seed.yaml`; use - for standard input")
    name = "standard input" if options.file == "-" else options.file
    answer = Admin(options).call("POST /v1/seed", text=_text(options.file, name), name=name)
    show_answer(options, answer, _print_created)


def _print_created(answer: dict[str, Any]) -> None:
    if answer["topics"]:
        show_rows(answer["topics"])
    for what in ("groups", "cases", "subjects"):
        if answer[what]:
            show(f"{what}: {', '.join(answer[what])}")


def _text(file: str, name: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(SEED_BYTES_MAX + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(SEED_BYTES_MAX + 1)
        if len(data) > SEED_BYTES_MAX:
            raise wrong_call(f"{name}: seed too large (limit {SEED_BYTES_MAX} bytes)")
        return data.decode()
    except OSError as error:
        raise wrong_call(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise wrong_call(f"{name} is not UTF-8 at byte {error.start}") from error


def _options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="YAML or JSON file; - for standard input")
    parser.add_argument("--export", action="store_true", help="print the broker's topics and configs as a seed instead")


COMMAND = Command(
    "seed",
    "create the topics, records, groups and hard cases that a file lists",
    _seed,
    with_admin_options(_options),
    NOTES,
)
