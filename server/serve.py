"""`ottla serve`: options in, a broker that runs until a signal comes."""

from __future__ import annotations

import argparse
import logging
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module

import trio

from ..storage.catalog import CatalogError
from ..storage.config import ConfigError
from ..storage.files import DirectoryLockedError, OsFiles
from ..storage.kernel import COMPILED
from ..storage.manager import DataDirectoryError
from .broker import run_broker
from .config import StaticConfig
from .node_lines import obey
from .nursery import open_plain_nursery
from .opening import static_config_with_stored_id
from .properties import Properties, parse_server_properties

log = logging.getLogger("ottla")

SWITCH_INTERVAL_S = 0.0005

WARM_UP_AFTER_S = 0.2


HELLO = """
Ottla serves Kafka clients at {address}. With `pip install kafka-python`:

    from kafka import KafkaConsumer, KafkaProducer
    with KafkaProducer(bootstrap_servers="{address}") as producer:
        producer.send("greetings", key=b"me", value=b"hello").get()
    for record in KafkaConsumer("greetings", bootstrap_servers="{address}", auto_offset_reset="earliest", consumer_timeout_ms=1000):
        print(record.offset, record.key, record.value)

Stop with Ctrl-C."""


class StartError(Exception):
    """Why the broker does not start, in one line."""


def serve(options: argparse.Namespace) -> int:
    """Run a broker until SIGTERM or SIGINT; returns the exit code 0.

    Raises:
        StartError: Bad options, an address or a data directory that cannot be used. Nothing was written.
    """
    try:
        static = _configuration(options)
        for line in static.warnings:
            log.warning("%s", line)
        _prepare_process()
        trio.run(_run, static, options.hello, options.admin)
    except (ConfigError, CatalogError, DirectoryLockedError, DataDirectoryError, OSError) as error:
        raise StartError(str(error)) from error
    return 0


def _configuration(options: argparse.Namespace) -> StaticConfig:
    flags = {}
    if options.data is not None:
        flags["log.dirs"] = options.data
    if options.listener:
        flags["listeners"] = ",".join(_listener(text) for text in options.listener)
    overrides = {}
    for text in options.override:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ConfigError(f"Invalid value {text} for --override: must be NAME=VALUE")
        overrides[name.strip()] = value
    return static_config_with_stored_id(
        OsFiles(),
        profile=options.profile,
        file=_file(options.config) if options.config else None,
        flags=flags,
        overrides=overrides,
        nodes=options.nodes,
    )


def _listener(text: str) -> str:
    return text if "://" in text else f"PLAINTEXT://{text}"


def _file(path: str) -> Properties:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_server_properties(file.read())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _prepare_process() -> None:
    """What a broker with a process of its own may ask of it; inside another program it is not ours to change."""
    # Every segment and every connection holds a descriptor.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # Not every system lets a process have all that its limit says.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A clean pass is Python in another thread; clients must not wait the default 5 ms for it to let go.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # In the background of a shell, reading the terminal shall fail instead of stopping the process.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)


async def _run(static: StaticConfig, hello: bool, admin: str | None) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with run_broker(static, admin=admin) as broker, open_plain_nursery() as nursery:
            if not COMPILED:
                log.warning(
                    "the cleaner runs on its interpreted kernel, which is slow: install ottla where a C compiler is"
                )
            print(f"ready {broker.bootstrap}", flush=True)
            if hello:
                print(HELLO.format(address=broker.nodes[0].listeners[0].address), flush=True)
            nursery.start_soon(obey, broker)
            nursery.start_soon(warm_up)
            async for number in signals:
                log.info("%s: stopping", signal.Signals(number).name)
                break
            nursery.cancel_scope.cancel()


async def warm_up() -> None:
    """Load what the first group needs before one comes: a tenth of a second, in which every client would wait."""
    await trio.sleep(WARM_UP_AFTER_S)  # the first clients of a start come first
    await trio.to_thread.run_sync(import_module, ".groups.service", __package__, abandon_on_cancel=True)
