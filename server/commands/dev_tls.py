"""`--tls`: all listeners for clients use TLS, with certificates signed by an authority of this data directory.

    ottla-tls-authority.pem   its key and its certificate, so that clients' trust stores stay valid from start to start
    ottla-tls-ca.pem          its certificate, which clients trust
    ottla-tls-client.pem      key and certificate of a client, `User:CN=client`, new with each start

The files are in one data directory, readable by their owner only: the first that has an authority, else the first that
can be written, since any disk may have failed. Snapshots and resets do not touch them, and Apache Kafka ignores files
there. The broker's own key is never written. Its certificate is valid for all hosts that this start binds or
advertises. Nothing is written before the data directories are open.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import ssl
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ...storage.disk.health import is_disk_failure
from ...storage.disk.own_files import make_file
from ...storage.topics.options import ConfigError
from ...storage.topics.properties import properties_text
from ..config.listeners import OVER_SASL, OVER_TLS, PLAINTEXT, SASL_PLAINTEXT, SSL, parse_endpoint
from ..config.options.known_options import LISTENER_PREFIX
from ..config.properties import Properties
from ..config.sasl.users import User, protocol_for
from ..config.static_config import StaticConfig, default_listener
from ..embedded.sasl import Sasl, sasl_for
from ..embedded.tls import HOSTS, USER_NAME, PemFiles, Tls, listener_options
from ..security.tls.dev_certificates import Authority
from ..security.tls.settings import tls_settings

PREFIX = "ottla-tls-"
AUTHORITY = f"{PREFIX}authority.pem"
PASSWORD = "…"
"""Shown instead of a password, which is never printed on a terminal."""

_MAP = "listener.security.protocol.map"
_CLIENT_AUTH = "ssl.client.auth"
_ADDRESSES = ("listeners", "advertised.listeners")
_WITHOUT_TLS = (PLAINTEXT, SASL_PLAINTEXT)
_KEYS = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
_ANY_ADDRESS = ("", "0.0.0.0", "::")

HELLO = """
TLS             clients must trust {ca}

    kafka-python       {kafka_python}
    confluent-kafka    {confluent_kafka}
    kcat               kcat -b {address} {kcat} -L
    Java, ottla        {java}
"""
IDENTITY = """
Client certificate and key (principal {principal}): {client}
"""


class KeptFiles(PemFiles):
    """Files in one of several data directories; each is written once, and replaces that of an earlier start."""

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__(PREFIX)
        self._directories = directories
        self._directory = directories[0]
        self._written: set[str] = set()

    def begin(self, name: str, content: bytes) -> None:
        """Write a first file, without the prefix, into the first directory that can be written; all others will be next to it.

        Raises:
            OSError: No directory can be written; the error of the first one.
        """
        refused: OSError | None = None
        for directory in self._directories:
            try:
                replace_file(os.path.join(directory, name), content)
            except OSError as error:
                refused = refused or error
            else:
                self._directory = directory
                return
        assert refused is not None
        raise refused

    def write_file(self, name: str, content: str | bytes) -> str:
        """Write a file as `PemFiles` does. OSError: the disk refused."""
        path = os.path.join(self._directory, PREFIX + name)
        if path not in self._written:
            replace_file(path, content.encode() if isinstance(content, str) else content)
            self._written.add(path)
        return path


@dataclass(frozen=True, slots=True)
class Secured:
    """A start with `--tls`."""

    static: StaticConfig
    authority: Authority = field(repr=False)
    is_new: bool
    """Whether the authority was made for this start."""
    files: KeptFiles
    tls: Tls
    """Client settings for TLS."""

    def keep(self) -> None:
        """Write the files. OSError: the disk refused; if the authority is new, all data directories refused."""
        if self.is_new:
            self.files.begin(AUTHORITY, self.authority.pem.encode())
        _ = self.tls.ca_path, self.tls.key_store_path

    @property
    def _certificate_path(self) -> str | None:
        """Path of the client's certificate with its key, if clients need one; else None."""
        first = self.static.node(self.static.node_ids[0])
        listener = first.listener_configs[0]
        settings = tls_settings(first, listener.name, is_over_sasl=listener.security_protocol in OVER_SASL)
        return self.tls.key_store_path if settings.client_auth is ssl.CERT_REQUIRED else None

    @property
    def sasl(self) -> Sasl | None:
        """SASL settings of the user in the examples; None if this start has no users."""
        return sasl_for(self.static.users, self.tls, None, None) if self.static.users else None

    def kafka_python(self) -> dict[str, str]:
        """Return the arguments of kafka-python, without the password."""
        options = {"security_protocol": SSL, "ssl_cafile": self.tls.ca_path}
        if path := self._certificate_path:
            options |= {"ssl_certfile": path, "ssl_keyfile": path}
        return options if self.sasl is None else options | self.sasl.kafka_python() | {"sasl_plain_password": PASSWORD}

    def librdkafka(self) -> dict[str, str]:
        """Return the properties of clients with librdkafka, without the password, and with paths instead of texts in PEM."""
        options = {"security.protocol": SSL, "ssl.ca.location": self.tls.ca_path}
        if path := self._certificate_path:
            options |= {"ssl.certificate.location": path, "ssl.key.location": path}
        if self.sasl is None:
            return options
        own = {name: value for name, value in self.sasl.confluent_kafka().items() if not name.startswith("ssl.")}
        return options | own | {"sasl.password": PASSWORD}

    def java(self) -> dict[str, str]:
        """Return the properties of Java clients, with the password if there is one."""
        tls = self.tls.java(with_certificate=self._certificate_path is not None)
        return tls if self.sasl is None else tls | self.sasl.java()

    def hello(self, address: str, properties: str | None = None) -> str:
        """Return instructions for each kind of client.

        Args:
            properties: The path of a file with `java()`; None: its lines are shown.
        """
        if properties is not None:
            java = f"--command-config {properties}"
        else:
            hidden = {} if self.sasl is None else {"sasl.jaas.config": self.sasl.java()["sasl.jaas.config"]}
            shown = {**self.java(), **{name: _without_password(text) for name, text in hidden.items()}}
            lines = [f"{name}={properties_text(value)}" for name, value in shown.items()]
            java = "--command-config FILE, with these lines\n" + "\n".join(" " * 23 + line for line in lines)
        python = (f"{name}={_quoted(value)}" for name, value in self.kafka_python().items())
        words = [word for name, value in self.librdkafka().items() for word in ("-X", f"{name}={value}")]
        identity = IDENTITY.format(principal=self.tls.principal, client=self.tls.key_store_path)
        told = HELLO.format(
            ca=self.tls.ca_path,
            address=address,
            kafka_python=", ".join(python),
            confluent_kafka=_quoted(self.librdkafka())[1:-1],
            kcat=shlex.join(words),
            java=java,
        )
        return told if self.static.users else told + identity  # with SASL the login is the principal


def secured(
    build: Callable[[Mapping[str, str]], StaticConfig],
    sources: Sequence[Mapping[str, str]],
    file: Properties,
    profile: str,
    users: Sequence[User],
    now_ms: int,
) -> Secured:
    """Return a start over TLS; `build` makes it from additional flags.

    Args:
        build: Merges all sources with these flags.
        sources: Broker options except those of the file and the profile; the strongest first.

    Raises:
        ConfigError: A source names keys or protocols of its own, or another option is refused; `cryptography` is missing.
    """
    told = [*sources, file.values, *file.node_values.values()]
    flags = _listeners(told, profile, protocol_for(users, over_tls=True) or SSL)

    def over_tls(authority: Authority, hosts: Iterable[str]) -> StaticConfig:
        options = dict(listener_options(authority, hosts))
        if users or any(_CLIENT_AUTH in each for each in told):
            del options[_CLIENT_AUTH]  # has no effect with SASL; a file's value would be weaker than a flag
        return build(flags | options)

    authority = Authority(now_ms)
    static = over_tls(authority, HOSTS)  # the first configuration gives the listeners and data directories
    named = [os.path.abspath(each) for each in static.node(static.node_ids[0]).data_dirs]
    kept, directories = _find_authority(named, now_ms)
    authority = kept or authority
    static = over_tls(authority, _hosts(static))
    files = KeptFiles(directories)
    tls = Tls(authority, files, USER_NAME, authority.issue(USER_NAME), 0)
    return Secured(static, authority, kept is None, files, tls)


def _find_authority(directories: Sequence[str], now_ms: int) -> tuple[Authority | None, Sequence[str]]:
    """Return the authority of an earlier start, and the directories that may have its files.

    The first authority is used. A directory whose disk has failed, or that cannot be listed, is skipped if there are
    others: the start of the broker reports the error. ConfigError as of `_load_authority`.
    """
    for directory in directories:
        try:
            kept = _load_authority(os.path.join(directory, AUTHORITY), now_ms)
        except ConfigError as error:
            if (
                len(directories) > 1
                and isinstance(error.__cause__, OSError)
                and _has_failed(directory, error.__cause__)
            ):
                continue
            raise
        if kept is not None:
            return kept, [directory]
    return None, directories


def _has_failed(directory: str, error: OSError) -> bool:
    if is_disk_failure(error):
        return True
    try:
        os.listdir(directory)
    except OSError:
        return True
    return False


def _listeners(told: Sequence[Mapping[str, str]], profile: str, protocol: str) -> dict[str, str]:
    """Return options by which all named listeners use TLS, or the default one if none is named."""
    controllers, names = set(), set()
    for name, value in ((name, value) for source in told for name, value in source.items()):
        if name == _MAP:
            raise ConfigError(
                f"Invalid value {value} for configuration {_MAP}: --tls applies to all listeners; remove either --tls or this option"
            )
        base = name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name
        if base.startswith(_KEYS):
            shown = value if base.endswith((".location", ".type")) else "[hidden]"
            raise ConfigError(
                f"Invalid value {shown} for configuration {name}: --tls generates its own keys and certificates;"
                " remove either --tls or this option"
            )
        if name == "controller.listener.names":
            controllers |= {each.strip().upper() for each in value.split(",")}
    for option in _ADDRESSES:
        for value in (source[option] for source in told if option in source):
            for item in filter(None, (each.strip() for each in value.split(","))):
                found = parse_endpoint(option, item)
                if found.name in _WITHOUT_TLS:
                    raise ConfigError(
                        f"Invalid value {item} for configuration {option}: --tls applies to all listeners;"
                        f" rename it to {protocol}"
                    )
                names.add(found.name)
    flags = {}
    if not any("listeners" in source for source in told):
        flags["listeners"] = default_listener(profile, protocol)
        names.add(protocol)
    if not names - controllers <= set(OVER_TLS):
        # Listeners of controllers are not for clients: they are as without --tls.
        protocols = {each: PLAINTEXT if each in controllers else protocol for each in sorted(names | controllers)}
        flags[_MAP] = ",".join(f"{each}:{each if each in OVER_TLS else to}" for each, to in protocols.items())
    return flags


def _hosts(static: StaticConfig) -> Iterator[str]:
    """Return the hosts at which clients may reach the nodes."""
    found = dict.fromkeys(HOSTS)
    for config in map(static.node, static.node_ids):
        for each in config.listener_configs:
            for host in (each.host, each.advertised_host):
                name = (socket.gethostname() if host in _ANY_ADDRESS else host).rstrip(".")
                if not name.isascii() or not name:
                    raise ConfigError(
                        f"Invalid value {host} for the host of a listener: --tls puts it into a certificate, which allows"
                        " ASCII names only; use the DNS form, xn--…"
                    )
                found[name] = None
    yield from found


def _load_authority(path: str, now_ms: int) -> Authority | None:
    """Return the authority of an earlier start; None without one, or if its certificates have expired.

    Raises:
        ConfigError: The file cannot be read, is invalid, or other users can read it; one line.
    """
    try:
        with open(path, encoding="ascii") as file:
            found = os.fstat(file.fileno())
            text = file.read(1 << 16)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    else:
        if stat.S_IMODE(found.st_mode) & 0o007 or (found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0):
            raise ConfigError(
                f"{path} contains the key of a CA, but other users can access it; remove it to create a new CA, which clients"
                " must then trust"
            )
    try:
        return Authority.read(text, now_ms)
    except ValueError:
        raise ConfigError(
            f"{path} does not contain the key and certificate of a CA; remove it to create a new CA, which clients must then trust"
        ) from None


def replace_file(path: str, content: bytes) -> None:
    """Write a file that only its owner may read, completely or not at all. OSError: the disk refused."""
    temporary = f"{path}.tmp"
    with suppress(FileNotFoundError):
        os.remove(temporary)  # left by a start that was killed
    try:
        with open(make_file(temporary), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def _quoted(value: object) -> str:
    """Quote a text as in Python and other languages."""
    return json.dumps(value, ensure_ascii=False)


def _without_password(jaas: str) -> str:
    return jaas.partition(' password="')[0] + f' password="{PASSWORD}";'
