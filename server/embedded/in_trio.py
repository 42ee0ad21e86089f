"""`ottla.open_broker`: a broker in the Trio loop of the caller."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Unpack

from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ...storage.disk.unsynced_files import UnsyncedFiles
from ..broker.broker import Broker
from ..broker.lives import AdminListener, Lives, run_lives
from ..config.data_paths import refuse_comma
from .loops import event_loop
from .options import BrokerArguments, Options, checked, takes_arguments

if TYPE_CHECKING:
    from ..control.seed.seed import Seed


@contextmanager
def data_directory(named: str | None) -> Iterator[tuple[str, Files]]:
    """Where to keep logs, and the files to do it with.

    A temporary directory is removed at the end. As it never outlives the process, nothing in it is made to survive a
    power loss, which would be most of a start's time.

    Raises:
        ConfigError: Temporary directories are where a comma is in the path.
        OSError: None can be made.
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
    """A broker that serves in this Trio loop while the block runs; in asyncio take `async with ottla.Broker()`.

    Args:
        data_dir: Where logs are kept; without it a temporary directory, removed at the end.
        nodes: How many broker ids to play, each on a port of its own.
        profile: `dev` (quick reactions) or `kafka` (Apache Kafka's defaults).
        overrides: Broker options by name.
        features: Finalized levels by name, e.g. `{"transaction.version": 1}`.
        listener: HOST:PORT of the first node; port 0 takes a free one.
        clock: The broker's time; tests move it.
        rng: Source of ids, jitter and replica placement; a seeded one makes them repeat.
        admin: [HOST:]PORT of the admin HTTP listener; without it there is none.
        admin_token: What its clients have to know; without it the listener is on a loopback address only.
        emulate: A release of Apache Kafka to play, as `"2.8"`: its APIs, versions and features.
        telemetry: Who gets the metrics that clients push (KIP-714): a directory for reports, or a function of an
            `ottla.server.telemetry.receivers.ClientMetrics`, called in a thread; without it clients are not asked for any.
        seed: What it has at its beginning, and after each `reset`: the path of a YAML or JSON file, or what would be in it. On
            a data directory that has some of it already, nothing is done.
        tls: Speak TLS, with certificates that are made for it alone; `Broker.tls` has what clients want. Clients may show
            a certificate; `overrides={"ssl.client.auth": "required"}` has them do so.
        users: Passwords by name: clients have to log in as one of them; `Broker.sasl` has what they want for that.
        mechanism: By which they do: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; by any of these unless one is named. With
            OAUTHBEARER there are no `users`: clients log in by tokens, which `Broker.sasl` and `Broker.token` give.
        acls: Access control entries, added at its beginning and after each `reset`, before the first client comes; with them
            there is an authorizer. A line each, as `"User:alice allow READ,WRITE topic:orders*"` (docs/security.md). Clients
            of listeners without TLS and SASL are `User:ANONYMOUS`; `overrides={"super.users": …}` names who may everything.
        quotas: How much clients may use, set at its beginning and after each `reset`: by entity and key, as
            `{"client-id=app": {"producer_byte_rate": 1024}}` (docs/quotas.md).

    Raises:
        RuntimeError: This is not Trio.
        TypeError, ConfigError: An option is refused.
        OSError, DataDirectoryError and the like: as `broker.lives.run_lives`.
    """
    if (library := event_loop()) != "trio":
        raise RuntimeError(
            f"ottla.open_broker is for Trio, and this is {library or 'no event loop'}: use"
            " `async with ottla.Broker() as broker:`, which runs in a thread of its own"
        )
    options = checked("ottla.open_broker", data_dir, arguments)
    async with embedded_lives(options) as lives:
        yield lives.broker


@asynccontextmanager
async def embedded_lives(options: Options) -> AsyncIterator[Lives]:
    """The lives of a broker with these options, in its directory or a temporary one."""
    with data_directory(options.data_dir) as (data_dir, files):
        static = options.static_config(files, data_dir)
        admin = None if options.admin is None else _admin_http(options.admin, options.admin_token)
        async with run_lives(
            static, clock=options.clock, files=files, rng=options.rng, admin=admin, prepare=_prepare(options)
        ) as lives:
            yield lives


def _prepare(options: Options) -> Callable[[Broker], Awaitable[object]] | None:
    if not options.acls and not options.quotas:
        return None if options.seed is None else partial(_plant, seed=options.seed)
    return partial(_prepared, options)


async def _prepared(options: Options, broker: Broker) -> None:
    if options.acls:
        from ..control.acls import add_acls

        await add_acls(broker, options.acls)
    if options.quotas:
        from ..control.quotas import set_all

        await set_all(broker, options.quotas)
    if options.seed is not None:
        await _plant(broker, options.seed)


async def _plant(broker: Broker, seed: Seed) -> None:
    from ..control.seed.planting import plant

    await plant(broker, seed, unless_there=True)


def _admin_http(address: str, token: str | None) -> AdminListener:
    from ..http.listener import AdminHttp  # h11 is loaded only where it is used

    return AdminHttp(address, token)
