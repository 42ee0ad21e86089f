"""What `docker run IMAGE …` runs: `ottla serve` with what a container needs beneath the user's own options, or another program.

    docker run IMAGE                          ottla serve
    docker run IMAGE --nodes 3                ottla serve --nodes 3
    docker run IMAGE dev                      ottla serve --profile dev, with the snippet and the admin listener of `ottla dev`
    docker run IMAGE topics list …            ottla topics list …
    docker run IMAGE sh -c …                  sh -c …

The last one is how testcontainers' modules start a container: a shell waits for a script that is copied in once the port
is known on the host, and the script comes back here by the paths that Kafka's images have (`docker/kafka`).
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
from ..frame.command_line import understand
from ..frame.options import ADMIN_TOKEN
from ..frame.parser import looks_like_option
from ..frame.table import ROWS
from ..serve_command import COMMAND, loading, log_to_standard_error
from .defaults import image_defaults
from .variables import broker_variables, serve_words

if TYPE_CHECKING:
    from ...broker.lives import Lives
    from ..throw_away_tls import Secured

log = logging.getLogger("ottla.container")

LISTENER_FILE = "ottla-listener"
"""In the directory for temporary files: security protocol and address of the first listener, for the health check, which
cannot see what a script has exported."""

MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
"""Where Apache Kafka's image finds the file of a user."""

ADMIN_PORT = 9099

READY = "[KafkaServer id={id}] started: Kafka Server started, Transitioning from RECOVERY to RUNNING"
"""What testcontainers' modules wait for in the output of Apache Kafka, ZooKeeper's and KRaft's, and of Confluent's images."""


def main(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run what the words of `docker run` ask for; returns the exit code, or does not return: another program has begun."""
    # The first process of a container gets no signal that it does not listen to.
    signal.signal(signal.SIGTERM, _end)
    asked = ottla_words(list(words), environment)
    if asked is None:
        _become(words)
    if _is_serve(asked):
        return with_exit_code(partial(_serve, asked, environment))
    return ottla(asked)


def ottla_words(words: list[str], environment: Mapping[str, str]) -> list[str] | None:
    """The command line of `ottla` that these words stand for; None where they name another program."""
    first = words[0] if words else ""
    if first == "ottla":
        return words[1:]
    if words == ["--version"] or first in ROWS.keys() - {"dev"} or first == "help":
        return words
    if first == "dev":
        host = "0.0.0.0" if environment.get(ADMIN_TOKEN) else "localhost"
        admin = [] if {"--admin", "OTTLA_ADMIN"} & _given(words, environment) else ["--admin", f"{host}:{ADMIN_PORT}"]
        return ["serve", "--profile", "dev", "--hello", *admin, *words[1:]]
    if not first or looks_like_option(first):
        return ["serve", *words]
    return None if shutil.which(first) else words


def _given(words: Sequence[str], environment: Mapping[str, str]) -> set[str]:
    return {word.partition("=")[0] for word in words} | {name for name, value in environment.items() if value}


def _serve(words: Sequence[str], environment: Mapping[str, str]) -> int:
    more, warnings = serve_words(COMMAND.parser().options, words[1:], environment)
    return serving(understand([*words, *more]).options, environment, warnings)


def _is_serve(words: Sequence[str]) -> bool:
    return words[:1] == ["serve"] and not {"-h", "--help"} & set(words)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _become(words: Sequence[str]) -> NoReturn:
    """Python ignores a closed pipe, and so would the other program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(words[0], list(words))
    except OSError as error:  # a script without its first line, say
        raise SystemExit(f"ottla: cannot run {words[0]}: {error.strerror}") from None


def serving(options: argparse.Namespace, environment: Mapping[str, str], warnings: Sequence[str]) -> int:
    """`ottla serve`, with what the image adds."""
    log_to_standard_error(logging.DEBUG if options.verbose else logging.INFO)
    for line in warnings:
        log.warning("%s", line)
    if options.config is None and os.path.exists(MOUNTED_CONFIG):
        options.config = MOUNTED_CONFIG
    with loading():
        from ..serve import serve, snippet

    def hello(lives: Lives, secured: Secured | None) -> str:
        _note_listener(lives)
        ready = READY.format(id=lives.nodes[0].node_id)
        return f"{ready}\n{snippet(lives, secured)}" if options.hello else ready

    return serve(options, hello, environment=broker_variables(environment), defaults=image_defaults)


def _note_listener(lives: Lives) -> None:
    listener = lives.nodes[0].listeners[0]
    try:
        path = os.path.join(tempfile.gettempdir(), LISTENER_FILE)
        with open(open_file(path, os.O_WRONLY, create=True, truncate=True), "w", encoding="utf-8") as file:
            file.write(f"{listener.security_protocol} {listener.address}\n")
    except OSError as error:
        log.warning("the health check uses port 9092, as no other port could be recorded: %s", error)
