"""`ottla.open_broker`: a broker in the Trio loop of the caller; and detection of the caller's event loop."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Unpack

import trio

from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles, UnsyncedFiles
from ..broker.broker import Broker
from ..broker.supervisor import HttpListener, Supervisor, run_supervisor
from ..config.properties import refuse_comma
from .options import BrokerArguments, Options, checked, takes_arguments

if TYPE_CHECKING:
    from ..control.seed.seed import Seed


def event_loop() -> str | None:
    """Return the event loop of the caller: `trio` or `asyncio`; None outside of both."""
    if trio.lowlevel.in_trio_task():
        return "trio"
    asyncio = sys.modules.get("asyncio")  # a program that has never imported it is not in it
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return "asyncio"
    return None


async def run_in_thread(work: Callable[[], object]) -> None:
    """Run `work()` in a thread to its end, without blocking the loop.

    A cancellation takes effect after `work` has ended: what it started then exists, and the caller can stop it.

    Raises:
        RuntimeError: In another event loop than Trio's and asyncio's.
        As `work`.
    """
    loop = event_loop()
    if loop == "trio":
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(work)
    elif loop == "asyncio":
        await _run_in_asyncio(work)
    else:
        raise RuntimeError("`async with ottla.Broker()` supports Trio and asyncio only; use `with ottla.Broker()`")


async def _run_in_asyncio(work: Callable[[], object]) -> None:
    import asyncio

    done = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            if done.cancelled():
                raise
            cancelled = error
        except BaseException:  # noqa: BLE001 - raised below
            break
    if cancelled is None:
        done.result()
        return
    raise cancelled


@contextmanager
def data_directory(named: str | None) -> Iterator[tuple[str, Files]]:
    """Yield the data directory and the files to use it with.

    A temporary directory is removed at the end. As it never outlives the process, nothing in it is synced against power
    loss, which would take most of a start's time.

    Raises:
        ConfigError: The path of temporary directories contains a comma.
        OSError: No temporary directory can be created.
    """
    if named is not None:
        yield named, OsFiles()
        return
    refuse_comma("TMPDIR", tempfile.gettempdir())
    made = tempfile.mkdtemp(prefix="ottla-")
    try:
        yield made, UnsyncedFiles()
    finally:
        shutil.rmtree(made, ignore_errors=True)


@takes_arguments
@asynccontextmanager
async def open_broker(
    data_dir: str | os.PathLike[str] | None = None,
    **arguments: Unpack[BrokerArguments],
) -> AsyncIterator[Broker]:
    """A broker that serves in this Trio loop while the block runs; in asyncio, use `async with ottla.Broker()`.

    Args:
        data_dir: Data directory (default: a temporary directory, removed at exit).
        nodes: Number of brokers, each with its own id and port.
        profile: `dev` (short delays, for tests) or `kafka` (Apache Kafka's defaults).
        overrides: Broker options by name.
        features: Finalized levels by name, e.g. `{"transaction.version": 1}`.
        listener: HOST:PORT of the first node; port 0 picks a free port.
        clock: The broker's clock, which tests can move.
        rng: Source of ids, jitter and replica placement; a seeded one makes them reproducible.
        admin: [HOST:]PORT of the admin HTTP listener (default: no listener).
        admin_token: Bearer token for the admin listener and the schema registry; without one they accept loopback addresses
            only.
        schema_registry: Serve a schema registry, on a free port or on [HOST:]PORT; `Broker.schema_registry` is its URL.
        emulate: Release of Apache Kafka to emulate, e.g. `"2.8"`: its APIs, versions and features.
        telemetry: Receiver of client metrics (KIP-714): a directory for reports, or a function of an
            `ottla.server.telemetry.receivers.ClientMetrics`, called in a thread (default: clients are not asked for metrics).
        seed: Initial content, also restored by each `reset`: path of a YAML or JSON file, or its content. Skipped if the data
            directory contains some of it already.
        tls: Serve TLS with certificates of a private CA; `Broker.tls` has the client settings. Client certificates are optional,
            or required with `overrides={"ssl.client.auth": "required"}`.
        users: Passwords by user name. Clients must log in as one of these users; `Broker.sasl` has the client settings.
        mechanism: SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (default: all three), or OAUTHBEARER. OAUTHBEARER takes no
            `users`: clients log in with tokens from `Broker.sasl` or `Broker.token`.
        acls: ACLs to add at start and after each `reset`, before the first client connects; they enable the authorizer. One line
            each, e.g. `"User:alice allow READ,WRITE topic:orders*"` (docs/security.md). Clients of listeners without TLS and SASL
            are `User:ANONYMOUS`. `overrides={"super.users": …}` names principals that may do everything.
        quotas: Client quotas to set at start and after each `reset`, by entity and key, e.g.
            `{"client-id=app": {"producer_byte_rate": 1024}}` (docs/quotas.md).

    Raises:
        RuntimeError: The caller does not run in Trio.
        TypeError, ConfigError: An option is invalid.
        OSError, DataDirectoryError and others: see `broker.supervisor.run_supervisor`.
    """
    if (library := event_loop()) != "trio":
        raise RuntimeError(
            f"ottla.open_broker requires Trio, found {library or 'no event loop'}; use"
            " `async with ottla.Broker() as broker:`, which runs in its own thread"
        )
    options = checked("ottla.open_broker", data_dir, arguments)
    async with embedded_supervisor(options) as supervisor:
        yield supervisor.broker


@asynccontextmanager
async def embedded_supervisor(options: Options) -> AsyncIterator[Supervisor]:
    """Execute the runs of a broker with these options, in its directory or a temporary one."""
    with data_directory(options.data_dir) as (data_dir, files):
        static = options.static_config(files, data_dir)
        admin = None if options.admin is None else _admin_http(options.admin, options.admin_token)
        registry = None if options.schema_registry is None else _registry(options.schema_registry, options.admin_token)
        async with run_supervisor(
            static,
            clock=options.clock,
            files=files,
            rng=options.rng,
            admin=admin,
            registry=registry,
            prepare=_prepare(options),
        ) as supervisor:
            yield supervisor


def _prepare(options: Options) -> Callable[[Broker], Awaitable[object]] | None:
    if not options.acls and not options.quotas:
        return None if options.seed is None else partial(_apply_seed, seed=options.seed)
    return partial(_prepared, options)


async def _prepared(options: Options, broker: Broker) -> None:
    if options.acls:
        from ..control.acls import add_acls

        await add_acls(broker, options.acls)
    if options.quotas:
        from ..control.quotas import set_all

        await set_all(broker, options.quotas)
    if options.seed is not None:
        await _apply_seed(broker, options.seed)


async def _apply_seed(broker: Broker, seed: Seed) -> None:
    from ..control.seed.seeding import apply_seed

    await apply_seed(broker, seed, unless_there=True)


def _admin_http(address: str, token: str | None) -> HttpListener:
    from ..http.listener import AdminHttp  # h11 is loaded only where it is used

    return AdminHttp(address, token)


def _registry(address: str, token: str | None) -> HttpListener:
    from ..http.registry_listener import RegistryHttp

    return RegistryHttp(address, token)
