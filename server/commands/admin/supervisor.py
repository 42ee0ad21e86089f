"""`ottla restart`, `crash`, `reset`, `snapshot`, `restore`: end a run of the broker, and start the next one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from ..frame.errors import WrongCallError
from ..frame.parser import Command, Parser
from ..frame.printing import show
from ..frame.terminal import Progress
from .asking import Admin, show_answer, with_admin_options


def _run_operation(what: str, done: str) -> Callable[[argparse.Namespace], None]:
    def run(options: argparse.Namespace) -> None:
        admin = Admin(options)
        with Progress() as progress:
            progress.say(f"{what} …")
            answer = admin.call(f"POST /v1/{what}")
        show_answer(options, answer, lambda _: show(f"{done}, serving again at {answer['bootstrap']}"))

    return run


def _copied(what: str, say: Callable[[dict[str, Any]], str]) -> Callable[[argparse.Namespace], None]:
    def run(options: argparse.Namespace) -> None:
        admin = Admin(options)
        if not options.directory:
            raise WrongCallError("expected a directory, found ''")
        with Progress() as progress:
            progress.say(f"{what} …")
            # The broker's working directory is another one.
            answer = admin.call(f"POST /v1/{what}", path=os.path.abspath(options.directory))
        show_answer(options, answer, lambda _: show(say(answer)))

    return run


def _size(answer: dict[str, Any]) -> str:
    return f"{answer['files']} files, {answer['size_bytes']} bytes"


def _directory_options(parser: Parser) -> None:
    parser.add_argument("directory", metavar="DIR", help="directory on the broker's machine")


RESTART = Command(
    "restart",
    "stop the broker cleanly and start it again, with the same ports, data and time",
    _run_operation("restart", "stopped and started"),
    with_admin_options(),
)
CRASH = Command(
    "crash",
    "kill the broker without a clean shutdown and start it again, with log recovery",
    _run_operation("crash", "killed and started"),
    with_admin_options(),
)
RESET = Command(
    "reset",
    "delete all data, remove all faults, reset the clock, and start as on first start",
    _run_operation("reset", "reset"),
    with_admin_options(),
)
SNAPSHOT = Command(
    "snapshot",
    "copy all data of the broker to a new directory",
    _copied("snapshot", lambda answer: f"copied {_size(answer)} to {answer['path']}"),
    with_admin_options(_directory_options),
)
RESTORE = Command(
    "restore",
    "restore all data and the clock from a snapshot",
    _copied("restore", lambda answer: f"restored {_size(answer)} from {answer['path']}"),
    with_admin_options(_directory_options),
)
