"""`ottla serve`: reads the options, and runs a broker until a signal is received."""

from __future__ import annotations

import argparse
import logging
import os
import re
import resource
import shlex
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

import trio

from ...storage.disk.files import Files
from ...storage.disk.health import DataDirectoryError
from ...storage.disk.os_files import OsFiles
from ...storage.disk.own_files import read_secrets
from ...storage.kernel import COMPILED
from ...storage.topics.config import ConfigError
from ..broker.broker import Broker
from ..broker.supervisor import HttpListener, Supervisor, run_supervisor
from ..cluster.opening import static_config_with_stored_id
from ..config.properties import Properties, parse_server_properties, refuse_comma
from ..config.static_config import StaticConfig, default_listener
from ..handlers import Handlers, load
from ..runtime.clock import Clock
from ..runtime.deferred_free import give_back, share_arenas
from ..runtime.errors import ControlError
from ..runtime.gc_policy import GcPolicy
from ..runtime.nursery import open_plain_nursery
from ..runtime.threads import Arguments
from .frame.environment import read_environment
from .frame.errors import wrong_call
from .frame.options import DEFAULT_BOOTSTRAP
from .node_lines import run_commands

if TYPE_CHECKING:
    from ..config.sasl.users import User
    from .dev_tls import Secured

log = logging.getLogger("ottla")

SWITCH_INTERVAL_S = 0.0005

WARM_UP_AFTER_S = 0.2

PROGRAM = "ottla"
ADMIN_TOKEN = "OTTLA_ADMIN_TOKEN"
"""Environment variable with the token that clients of the admin listener need."""

SIGHUP = getattr(signal, "SIGHUP", None)
STOP_SIGNALS = [number for number in (signal.SIGTERM, signal.SIGINT, SIGHUP) if number is not None]

STATE_HOME = "XDG_STATE_HOME"
EARLIER_DATA_DIR = "/tmp/ottla-logs"
"""The default of earlier versions, which any user of the machine may have created first."""

HELLO = """
Ottla serves Kafka clients at {address}. In another shell:

    {ottla} produce greetings hello --key me{bootstrap}
    {ottla} consume greetings --until-end{bootstrap}
    {ottla} --help

In Python, after `pip install kafka-python`:

    from kafka import KafkaConsumer, KafkaProducer
    with KafkaProducer(bootstrap_servers="{address}") as producer:
        producer.send("greetings", key=b"me", value=b"hello").get()
    for record in KafkaConsumer("greetings", bootstrap_servers="{address}", auto_offset_reset="earliest", consumer_timeout_ms=1000):
        print(record.offset, record.key, record.value)

Stop with Ctrl-C."""

_OPTION_NAME = re.compile(r"[a-z]+(?:\.[a-z]+)+")

_OF_LISTENERS = {"listeners", "listener.security.protocol.map"}

NOTHING: Mapping[str, str] = MappingProxyType({})

Defaults = Callable[[Properties, Mapping[str, str], str, int], Properties]
"""Function from the properties of file and environment, each option that has a value, the security protocol of a
listener without a name, and the number of nodes, to the properties of the start.
"""


def snippet(supervisor: Supervisor, secured: Secured | None) -> str:
    """Return an example to try."""
    address = supervisor.nodes[0].listeners[0].address
    if secured is None:
        bootstrap = "" if address == DEFAULT_BOOTSTRAP else f" --bootstrap {address}"
        return HELLO.format(address=address, ottla=_own_name(), bootstrap=bootstrap)
    return f"{secured.hello(address)}\nStop with Ctrl-C."


def _own_name() -> str:
    """Return how a shell in this directory calls this program.

    It is `ottla` if the shell's search path finds it, otherwise the name by which it was called.
    """
    called, found = sys.argv[0], shutil.which(PROGRAM)
    if os.path.basename(called) != PROGRAM or (found is not None and os.path.samefile(found, called)):
        return PROGRAM
    return shlex.quote(called)


def serve(
    options: argparse.Namespace,
    hello: Callable[[Supervisor, Secured | None], str] | None = None,
    *,
    environment: Mapping[str, str] = NOTHING,
    defaults: Defaults | None = None,
) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP, and return the exit code.

    It is 0 after a clean stop, and 1 after an error, or when the broker's data directories have failed.

    Args:
        hello: Text to print after the line that the broker is ready.
        environment: Variables that may name broker options.
        defaults: Options that are weaker than the given ones, and stronger than the profile.

    Raises:
        CommandError: WRONG_CALL. Bad options, an address or a data directory that cannot be used. Nothing was written.
    """
    stop = StopSignals()
    try:
        static, secured = configuration(options, environment, defaults)
        for line in static.warnings:
            log.warning("%s", line)
        _prepare_process()
        stop.listen()
        token = _admin_token(options.admin_token_file)  # once: the file may be a pipe
        admin, registry = _admin_http(options, token), _registry(options, token)
        return trio.run(_run, static, hello, admin, _prepare(options.seed), stop, None, secured, registry)
    except (ConfigError, ControlError, DataDirectoryError, OSError) as error:
        if stop.may_end:
            log.exception("the broker failed")
            return 1
        raise wrong_call(str(error)) from error
    finally:
        stop.ignore()


class StopSignals:
    """Signals that request a clean stop, as in Apache Kafka. The first one counts; later ones are ignored.

    From `listen` to the end of the process no such signal kills it: Python and Trio would each restore the system's
    handler at some moment between the stop and the end. Under `nohup` SIGHUP stays ignored.
    """

    def __init__(self) -> None:
        self.may_end = False
        """Whether the broker has started to serve, so that a later end is not a failed start."""
        self._listening: list[int] = []
        self._first: int | None = None
        self._wake: Callable[[], None] | None = None

    def listen(self) -> None:
        """Record signals from now on. Must be called in the main thread."""
        for number in STOP_SIGNALS:
            if number == SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._listening.append(number)
            signal.signal(number, self._note)

    def ignore(self) -> None:
        """Ignore later signals, even after Python itself has ended."""
        for number in self._listening:
            signal.signal(number, signal.SIG_IGN)

    def _note(self, number: int, _frame: object) -> None:
        if self._first is None:
            self._first = number
        if self._wake is not None:
            with suppress(trio.RunFinishedError):
                self._wake()

    async def wait(self) -> None:
        """Return once a signal has been received, even before the call."""
        come = trio.Event()
        self._wake = partial(trio.lowlevel.current_trio_token().run_sync_soon, come.set)
        if self._first is None:
            await come.wait()
        assert self._first is not None
        log.info("%s: stopping", signal.Signals(self._first).name)


def configuration(
    options: argparse.Namespace, environment: Mapping[str, str] = NOTHING, defaults: Defaults | None = None
) -> tuple[StaticConfig, Secured | None]:
    """Return the configuration that the options give, and what --tls makes. ConfigError if an option is invalid."""
    users, flags, protocol = _users(options.user, over_tls=options.tls)
    if options.data is not None:
        refuse_comma("--data", options.data)
        flags["log.dirs"] = options.data
    if options.listener:
        flags["listeners"] = ",".join(_listener(text, protocol) for text in options.listener)
    overrides = {}
    for text in options.override:
        name, separator, value = text.partition("=")
        if not separator or not name:
            shown = _OPTION_NAME.match(text)  # the rest may be a password
            raise ConfigError(f"Invalid value {shown[0] if shown else ''}… for --override: must be NAME=VALUE")
        overrides[name.strip()] = value
    file = _with_environment(_file(options.config) if options.config else Properties(), environment)
    if defaults is not None:
        file = defaults(file, {**file.values, **flags, **overrides}, protocol, options.nodes or file.nodes or 1)
    if not {"log.dirs", "log.dir"} & {*flags, *overrides, *file.values}:
        flags["log.dirs"] = default_data_dir(os.environ)
        log.warning("data directory: %s (neither --data nor log.dirs is set)", flags["log.dirs"])
        if _is_our_directory(EARLIER_DATA_DIR):
            log.warning(
                "data in %s, the default directory of an earlier version, is not served; to use it, restart with --data %s",
                EARLIER_DATA_DIR,
                EARLIER_DATA_DIR,
            )
    told = {name for each in (flags, overrides, file.values, *file.node_values.values()) for name in each}
    if users and not options.tls and not told & _OF_LISTENERS:
        flags["listeners"] = default_listener(options.profile, protocol)

    def build(more: Mapping[str, str] = NOTHING) -> StaticConfig:
        static = static_config_with_stored_id(
            OsFiles(),
            profile=options.profile,
            file=file,
            flags=flags | dict(more),
            overrides=overrides,
            nodes=options.nodes,
            emulate=options.emulate,
        )
        return replace(static, telemetry=options.telemetry).with_users(users)

    if not options.tls:
        return build(), None
    from .dev_tls import secured  # Most starts need no TLS.

    found = secured(build, [overrides, flags], file, options.profile, users, Clock().now_ms())
    return found.static, found


def default_data_dir(environment: Mapping[str, str]) -> str:
    """Return the data directory if no option names one: below the user's state directory, by the XDG specification.

    Raises:
        ConfigError: The process has no home directory, or one with a comma in its path.
    """
    state = environment.get(STATE_HOME, "")
    if not os.path.isabs(state):  # XDG: a relative path is ignored
        home = environment.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home) or home == "/":
            raise ConfigError(
                f"no data directory: this process has no home directory (HOME {home}); set --data or log.dirs"
            )
        state = os.path.join(home, ".local", "state")
    found = os.path.join(state, "ottla", "logs")
    if "," in found:
        raise ConfigError(f"invalid data directory: {found} contains a comma, the separator of log.dirs; set --data")
    return found


def _is_our_directory(path: str) -> bool:
    """Return whether it is a data directory that this user has created; those of other users are left alone."""
    try:
        return os.lstat(path).st_uid == os.geteuid() and bool(os.listdir(path))
    except OSError:
        return False


def _users(texts: Sequence[str], *, over_tls: bool) -> tuple[list[User], dict[str, str], str]:
    """Return the users, the options that they need, and the default security protocol of listeners."""
    if not texts:
        return [], {}, "SSL" if over_tls else "PLAINTEXT"
    from ..config.sasl.users import options_for, parse_user, protocol_for  # imported here, since only users need it

    users = [parse_user(each) for text in texts for each in _user_texts(text)]
    return users, options_for(users), protocol_for(users, over_tls=over_tls) or "PLAINTEXT"


def _user_texts(text: str) -> Sequence[str]:
    """Return a value of --user, or for `@FILE` the lines of a file without comments.

    ConfigError: it cannot be read; errors show no password.
    """
    if not text.startswith("@"):
        return [text]
    path = text[1:]
    if ":" in path and not os.path.exists(path):  # a password may follow
        raise ConfigError("Invalid value for --user: file of @FILE not found")
    content = _text(path, secrets_of="--user @")
    lines = [line for line in content.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise ConfigError(f"Invalid value @{path} for --user: no line NAME:PASSWORD[:MECHANISM] in the file")
    return lines


def _with_environment(file: Properties, variables: Mapping[str, str]) -> Properties:
    """Return the file's options, overridden by those of the environment."""
    environment = read_environment(variables)
    for line in environment.warnings:
        log.warning("%s", line)
    if environment.variables:
        log.info("options from the environment: %s", ", ".join(environment.variables))
    return replace(file, values=file.values | environment.options, cluster_id=environment.cluster_id or file.cluster_id)


def _prepare(path: str | None) -> Callable[[Broker], Awaitable[object]] | None:
    if path is None:
        return None
    from ..control.seed.seed import seed_from
    from ..control.seed.seeding import apply_seed

    return partial(apply_seed, seed=seed_from(path), unless_there=True)


def _admin_http(options: argparse.Namespace, token: str | None) -> HttpListener | None:
    if options.admin is None:
        if options.admin_token_file is not None and options.schema_registry is None:
            raise ConfigError("--admin-token-file requires --admin or --schema-registry")
        return None
    from ..http.listener import AdminHttp

    return AdminHttp(options.admin, token)


def _registry(options: argparse.Namespace, token: str | None) -> HttpListener | None:
    if options.schema_registry is None:
        return None
    from ..http.registry_listener import RegistryHttp

    found = RegistryHttp(options.schema_registry, token)
    if getattr(options, "registry_may_fail", False):
        try:
            found.reserve()
        except OSError as error:
            log.warning("no schema registry: %s", error)
            return None
    return found


def _admin_token(path: str | None) -> str | None:
    if path is None:
        token, where = os.environ.get(ADMIN_TOKEN), ADMIN_TOKEN
    else:
        token, where = _text(path, secrets_of="--admin-token-file ").strip(), f"--admin-token-file {path}"
    if token is not None:
        from ..http.access import checked_token

        checked_token(token, where)
    return token


def _listener(text: str, protocol: str) -> str:
    return text if "://" in text else f"{protocol}://{text}"


def _file(path: str) -> Properties:
    return parse_server_properties(_text(path))


def _text(path: str, *, secrets_of: str = "") -> str:
    """Read a file.

    Args:
        secrets_of: The option that names it, for a warning about other users who can read its secrets.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        text, warning = read_secrets(path)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if secrets_of and warning:
        log.warning("%s%s", secrets_of, warning)
    return text


def _prepare_process() -> None:
    """Change settings of the process for a broker that has a process of its own.

    Inside another program they must stay unchanged.
    """
    # Every segment and every connection holds a descriptor.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # Some systems refuse the maximum of the limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A clean pass is Python in another thread; clients must not wait the default 5 ms until it releases the GIL.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    share_arenas()
    # In the background of a shell, reading the terminal must fail instead of stopping the process.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)


async def _run(
    static: StaticConfig,
    hello: Callable[[Supervisor, Secured | None], str] | None,
    admin: HttpListener | None,
    prepare: Callable[[Broker], Awaitable[object]] | None,
    stop: StopSignals,
    files: Files | None = None,
    secured: Secured | None = None,
    registry: HttpListener | None = None,
) -> int:
    """Run the broker; return the exit code. `files` are the system's by default."""
    async with (
        run_supervisor(static, files=files, admin=admin, registry=registry, prepare=prepare) as supervisor,
        open_plain_nursery() as nursery,
    ):
        if not COMPILED:
            log.warning(
                "the cleaner uses its interpreted kernel, which is slow; install ottla on a machine with a C compiler"
            )
        if secured is not None:
            secured.keep()
            if hello is None:
                log.info("TLS: clients must trust %s; --hello prints the settings for each client", secured.tls.ca_path)
        stop.may_end = True
        print(f"ready {supervisor.bootstrap}", flush=True)
        if hello is not None:
            print(hello(supervisor, secured), flush=True)
        supervisor.in_each_run(_collect)
        # Once: garbage of an earlier run would otherwise stay for good.
        nursery.start_soon(warm_up, supervisor.broker.collector)
        nursery.start_soon(run_commands, supervisor)
        ended = trio.Event()
        for end in (stop.wait, supervisor.disks_lost.wait):
            nursery.start_soon(_when, end, ended)
        await ended.wait()
        nursery.cancel_scope.cancel()
    if supervisor.disks_lost.is_set():
        log.error("%s: the broker has stopped", supervisor.failure)
        return 1
    return 0


async def _when(end: Callable[[], Awaitable[None]], then: trio.Event) -> None:
    await end()
    then.set()


async def _collect(broker: Broker) -> None:
    """Run the collector of a broker that has its own process."""
    await broker.collector.run()


async def warm_up(collector: GcPolicy) -> None:
    """Load coordinators and APIs before a client needs them: otherwise every client would wait, for up to a tenth of a second.

    The objects of the start and the modules stay alive, so they are excluded from garbage collections.

    If this is not possible now, for lack of descriptors or memory, the first request that needs one tries again.
    """
    collector.keep()
    await trio.sleep(WARM_UP_AFTER_S)  # the first clients of a start have priority
    for whose in ("group", "transaction"):
        await _load_ahead(f"{whose} coordinator", f"first {whose}", import_module, f"..{whose}s.service", __package__)
    for key in Handlers.keys_ahead():
        if not await _load_ahead("other APIs", "first requests", load, key):
            break
    collector.keep()
    # Loading modules leaves a megabyte of free memory in the C library, between objects that stay.
    with suppress(OSError, RuntimeError, MemoryError):
        await trio.to_thread.run_sync(give_back, abandon_on_cancel=True)


async def _load_ahead(what: str, of: str, loading: Callable[[*Arguments], object], *arguments: *Arguments) -> bool:
    try:
        await trio.to_thread.run_sync(loading, *arguments, abandon_on_cancel=True)
    except (OSError, ImportError, MemoryError) as error:
        log.warning("the %s could not be loaded ahead of the %s: %s", what, of, error)
        return False
    return True
