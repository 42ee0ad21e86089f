"""Entrypoint of the image, run by `docker run IMAGE …`: `ottla serve` with defaults for containers, or another program.

    docker run IMAGE                          ottla serve
    docker run IMAGE --nodes 3                ottla serve --nodes 3
    docker run IMAGE dev                      ottla serve --profile dev, with the snippet, the admin listener and the registry of `ottla dev`
    docker run IMAGE topics list …            ottla topics list …
    docker run IMAGE sh -c …                  sh -c …

The last form is how testcontainers' modules start a container. A shell waits for a script, which is copied in once the
port on the host is known. The script then runs this entrypoint by the paths of Kafka's images (`docker/kafka`).
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ....storage.disk.own_files import open_file
from ..cli import main as ottla
from ..cli import with_exit_code
from ..frame.command_line import parse_command_line
from ..frame.options import ADMIN_TOKEN
from ..frame.parser import looks_like_option
from ..frame.table import ROWS
from ..serve_command import COMMAND, loading, log_to_standard_error
from .defaults import image_defaults
from .variables import broker_variables, serve_words

if TYPE_CHECKING:
    from ...broker.supervisor import Supervisor
    from ..dev_tls import Secured

log = logging.getLogger("ottla.container")

LISTENER_FILE = "ottla-listener"
"""File in the directory for temporary files with the security protocol and address of the first listener. For the
health check, which cannot see variables that a script has exported.
"""

MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
"""Path at which Apache Kafka's image finds the user's file."""

ADMIN_PORT = 9099
REGISTRY_PORT = 8081

READY = "[KafkaServer id={id}] started: Kafka Server started, Transitioning from RECOVERY to RUNNING"
"""Line that testcontainers' modules wait for in the output of Apache Kafka, with ZooKeeper and with KRaft, and of
Confluent's images.
"""


def main(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run the words of `docker run`; return the exit code, or do not return if another program replaces this one."""
    # The first process of a container receives only signals for which it has handlers.
    signal.signal(signal.SIGTERM, _end)
    asked = ottla_words(list(words), environment)
    if asked is None:
        _exec(words)
    if _is_serve(asked):
        return with_exit_code(partial(_serve, asked, environment))
    return ottla(asked)


def ottla_words(words: list[str], environment: Mapping[str, str]) -> list[str] | None:
    """Return the command line of `ottla` for these words; None if they name another program."""
    first = words[0] if words else ""
    if first == "ottla":
        return words[1:]
    if words == ["--version"] or first in ROWS.keys() - {"dev"} or first == "help":
        return words
    if first == "dev":
        host = "0.0.0.0" if environment.get(ADMIN_TOKEN) else "localhost"
        given = _option_names(words, environment)
        admin = [] if {"--admin", "OTTLA_ADMIN"} & given else ["--admin", f"{host}:{ADMIN_PORT}"]
        registry = (
            []
            if {"--schema-registry", "OTTLA_SCHEMA_REGISTRY"} & given
            else ["--schema-registry", f"{host}:{REGISTRY_PORT}"]
        )
        return ["serve", "--profile", "dev", "--hello", *admin, *registry, *words[1:]]
    if not first or looks_like_option(first):
        return ["serve", *words]
    return None if shutil.which(first) else words


def _option_names(words: Sequence[str], environment: Mapping[str, str]) -> set[str]:
    return {word.partition("=")[0] for word in words} | {name for name, value in environment.items() if value}


def _serve(words: Sequence[str], environment: Mapping[str, str]) -> int:
    more, warnings = serve_words(COMMAND.parser().options, words[1:], environment)
    return serving(parse_command_line([*words, *more]).options, environment, warnings)


def _is_serve(words: Sequence[str]) -> bool:
    return words[:1] == ["serve"] and not {"-h", "--help"} & set(words)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _exec(words: Sequence[str]) -> NoReturn:
    """Replace this process by another program. Python ignores SIGPIPE, and the other program would inherit that."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(words[0], list(words))
    except OSError as error:  # e.g. a script without an interpreter line
        raise SystemExit(f"ottla: cannot run {words[0]}: {error.strerror}") from None


def serving(options: argparse.Namespace, environment: Mapping[str, str], warnings: Sequence[str]) -> int:
    """Run `ottla serve` with the image's additions."""
    log_to_standard_error(logging.DEBUG if options.verbose else logging.INFO)
    for line in warnings:
        log.warning("%s", line)
    if options.config is None and os.path.exists(MOUNTED_CONFIG):
        options.config = MOUNTED_CONFIG
    with loading():
        from ..serve import serve, snippet

    def hello(supervisor: Supervisor, secured: Secured | None) -> str:
        _note_listener(supervisor)
        ready = READY.format(id=supervisor.nodes[0].node_id)
        return f"{ready}\n{snippet(supervisor, secured)}" if options.hello else ready

    return serve(options, hello, environment=broker_variables(environment), defaults=image_defaults)


def _note_listener(supervisor: Supervisor) -> None:
    listener = supervisor.nodes[0].listeners[0]
    try:
        path = os.path.join(tempfile.gettempdir(), LISTENER_FILE)
        with open(open_file(path, os.O_WRONLY, create=True, truncate=True), "w", encoding="utf-8") as file:
            file.write(f"{listener.security_protocol} {listener.address}\n")
    except OSError as error:
        log.warning("the health check uses port 9092, as no other port could be recorded: %s", error)
