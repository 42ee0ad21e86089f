"""`--tls`: all listeners for clients speak TLS, with certificates that an authority of this data directory signs.

    ottla-tls-authority.pem   its key and its certificate, so that what clients trust stays as it is from start to start
    ottla-tls-ca.pem          its certificate, which clients trust
    ottla-tls-client.pem      key and certificate of a client, `User:CN=client`, anew with each start

They are files of one data directory, for their owner only: of the first that has an authority, else of the first that takes them, as
the disk of any may have failed. Neither a snapshot nor a reset touches them, and Apache
Kafka minds no file there. The broker's own key is never written, and its certificate is for all hosts that this start
listens at or tells clients. Nothing is written before the data directories are open.
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
from ..security.tls.settings import tls_settings
from ..security.tls.throw_away import Authority

PREFIX = "ottla-tls-"
AUTHORITY = f"{PREFIX}authority.pem"
PASSWORD = "…"
"""Instead of one: it is the reader's, and reaches no terminal."""

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
    """Files of one of some data directories; each is written once, in place of what an earlier start has written."""

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__(PREFIX)
        self._directories = directories
        self._directory = directories[0]
        self._written: set[str] = set()

    def begin(self, name: str, content: bytes) -> None:
        """Write a first file, without the prefix, into the first directory that takes it; all others come to lie beside it.

        Raises:
            OSError: None does; what the first one said.
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

    def written(self, name: str, content: str | bytes) -> str:
        """As `PemFiles`. OSError: The disk refused."""
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
    """Whether it was made for this start."""
    files: KeptFiles
    tls: Tls
    """Its clients' side."""

    def keep(self) -> None:
        """Write the files. OSError: The disk refused, of all data directories if the authority is new."""
        if self.is_new:
            self.files.begin(AUTHORITY, self.authority.pem.encode())
        _ = self.tls.ca_path, self.tls.key_store_path

    @property
    def _certificate_path(self) -> str | None:
        """Of what clients have to show, with its key; None: they need not."""
        first = self.static.node(self.static.node_ids[0])
        listener = first.listener_configs[0]
        settings = tls_settings(first, listener.name, is_over_sasl=listener.security_protocol in OVER_SASL)
        return self.tls.key_store_path if settings.client_auth is ssl.CERT_REQUIRED else None

    @property
    def sasl(self) -> Sasl | None:
        """Who the examples log in as; None where nobody has to that this start was told of."""
        return sasl_for(self.static.users, self.tls, None, None) if self.static.users else None

    def kafka_python(self) -> dict[str, str]:
        """Arguments of kafka-python, the password left out."""
        options = {"security_protocol": SSL, "ssl_cafile": self.tls.ca_path}
        if path := self._certificate_path:
            options |= {"ssl_certfile": path, "ssl_keyfile": path}
        return options if self.sasl is None else options | self.sasl.kafka_python() | {"sasl_plain_password": PASSWORD}

    def librdkafka(self) -> dict[str, str]:
        """Likewise properties of whatever is built on librdkafka, with paths instead of texts in PEM."""
        options = {"security.protocol": SSL, "ssl.ca.location": self.tls.ca_path}
        if path := self._certificate_path:
            options |= {"ssl.certificate.location": path, "ssl.key.location": path}
        if self.sasl is None:
            return options
        own = {name: value for name, value in self.sasl.confluent_kafka().items() if not name.startswith("ssl.")}
        return options | own | {"sasl.password": PASSWORD}

    def java(self) -> dict[str, str]:
        """Client properties. They have the password, if there is one."""
        tls = self.tls.java(with_certificate=self._certificate_path is not None)
        return tls if self.sasl is None else tls | self.sasl.java()

    def hello(self, address: str, properties: str | None = None) -> str:
        """What each kind of client has to type.

        Args:
            properties: The path of a file that has `java()`; None: its lines are shown.
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
        return told if self.static.users else told + identity  # who logs in has no other name


def secured(
    build: Callable[[Mapping[str, str]], StaticConfig],
    sources: Sequence[Mapping[str, str]],
    file: Properties,
    profile: str,
    users: Sequence[User],
    now_ms: int,
) -> Secured:
    """The start that `build` makes of further flags, over TLS.

    Args:
        build: Puts all sources together, these flags among them.
        sources: What is told of broker options, but for the file and the profile; the strongest first.

    Raises:
        ConfigError: A source names keys or protocols of its own, or something else is refused; `cryptography` is missing.
    """
    told = [*sources, file.values, *file.node_values.values()]
    flags = _listeners(told, profile, protocol_for(users, over_tls=True) or SSL)

    def over_tls(authority: Authority, hosts: Iterable[str]) -> StaticConfig:
        options = dict(listener_options(authority, hosts))
        if users or any(_CLIENT_AUTH in each for each in told):
            del options[_CLIENT_AUTH]  # means nothing beside logins; a file's would be weaker than a flag
        return build(flags | options)

    authority = Authority(now_ms)
    static = over_tls(authority, HOSTS)  # which says where it listens, and whether an authority is kept
    named = [os.path.abspath(each) for each in static.node(static.node_ids[0]).data_dirs]
    kept, directories = _found(named, now_ms)
    authority = kept or authority
    static = over_tls(authority, _hosts(static))
    files = KeptFiles(directories)
    tls = Tls(authority, files, USER_NAME, authority.issue(USER_NAME), 0)
    return Secured(static, authority, kept is None, files, tls)


def _found(directories: Sequence[str], now_ms: int) -> tuple[Authority | None, Sequence[str]]:
    """The authority of an earlier start, and the directories that may have its files.

    Of several the first counts. A directory whose disk has failed, or that cannot even be listed, is passed over where there
    are others: the start of the broker says what is wrong with it. ConfigError as of `_kept`.
    """
    for directory in directories:
        try:
            kept = _kept(os.path.join(directory, AUTHORITY), now_ms)
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
    """Options by which all listeners speak TLS that are told of, or the default one."""
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
        # Controllers are no clients' listeners: they are as without --tls.
        protocols = {each: PLAINTEXT if each in controllers else protocol for each in sorted(names | controllers)}
        flags[_MAP] = ",".join(f"{each}:{each if each in OVER_TLS else to}" for each, to in protocols.items())
    return flags


def _hosts(static: StaticConfig) -> Iterator[str]:
    """Where clients may find the nodes."""
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


def _kept(path: str, now_ms: int) -> Authority | None:
    """The authority of an earlier start; None: there was none, or what it has signed holds no longer.

    Raises:
        ConfigError: The file cannot be read, is none, or is in other hands, too; one line.
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
    """Put a file there that only we may read, whole or not at all. OSError: The disk refused."""
    temporary = f"{path}.tmp"
    with suppress(FileNotFoundError):
        os.remove(temporary)  # of a start that was killed
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
    """As Python has it, and others too."""
    return json.dumps(value, ensure_ascii=False)


def _without_password(jaas: str) -> str:
    return jaas.partition(' password="')[0] + f' password="{PASSWORD}";'
