"""`broker.tls`: TLS settings for clients of a broker from `ottla.Broker(tls=True)`.

    with ottla.Broker(tls=True) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **broker.tls.kafka_python())
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", **broker.tls.confluent_kafka()})

A certificate authority that is made for this one broker has signed all certificates. Private keys of users are written
to files, since clients need files; these are deleted when the program ends, or when nothing refers to `broker.tls` any
more. The keys of the authority and of the broker are never written. `commands.dev_tls`, for `ottla dev --tls`,
keeps the authority.
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from ...storage.disk.own_files import make_file
from ..client.security import Security
from ..security.principal import USER, Principal
from ..security.tls.dev_certificates import Authority, Identity
from ..security.tls.names import subject

HOSTS = ("localhost", "127.0.0.1", "::1")
USER_NAME = "client"
PASSWORD = "throw-away"
"""Password of PKCS#12 files: Java requires one."""


class PemFiles:
    """A directory that is created with its first file."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._path: str | None = None

    def write_file(self, name: str, content: str | bytes) -> str:
        """Write a file that only its owner may read, and return its path."""
        if self._path is None:
            self._path = tempfile.mkdtemp(prefix=self._prefix)
            weakref.finalize(self, _remove, self._path, os.getpid())
        path = os.path.join(self._path, name)
        if not os.path.exists(path):
            with open(make_file(path), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
        return path


def _remove(path: str, process_id: int) -> None:
    if os.getpid() == process_id:  # else a fork has ended, whose parent still uses them
        shutil.rmtree(path, ignore_errors=True)


class Tls:
    """TLS settings of one user: key and certificate, and the CA to trust."""

    def __init__(self, authority: Authority, files: PemFiles, name: str, identity: Identity, number: int) -> None:
        self._authority = authority
        self._files = files
        self._identity = identity
        self._file_name = f"user-{number}" if number else USER_NAME
        self.name = name
        """Common name of the certificate."""
        self._users: dict[str, Tls] = {name: self}

    def user(self, name: str) -> Tls:
        """TLS settings for the user `CN=name`; repeated calls return the same certificate."""
        if name not in self._users:
            made = Tls(self._authority, self._files, name, self._authority.issue(name), len(self._users))
            made._users = self._users
            self._users[name] = made
        return self._users[name]

    @property
    def principal(self) -> str:
        """The principal of this certificate, as named in ACLs and quotas: `User:CN=client`, unless mapping rules change it."""
        return str(Principal(USER, subject(ssl.PEM_cert_to_DER_cert(self.certificate))))

    # In PEM

    @property
    def ca(self) -> str:
        """The CA's certificate."""
        return self._authority.certificate

    @property
    def certificate(self) -> str:
        """The user's certificate."""
        return self._identity.certificate

    @property
    def key(self) -> str:
        """The user's private key, not encrypted (PKCS#8)."""
        return self._identity.key

    # Paths of files

    @property
    def ca_path(self) -> str:
        """Path of the CA's certificate in PEM."""
        return self._files.write_file("ca.pem", self.ca)

    @property
    def certificate_path(self) -> str:
        """Path of the user's certificate in PEM."""
        return self._files.write_file(f"{self._file_name}.crt.pem", self.certificate)

    @property
    def key_path(self) -> str:
        """Path of the user's private key in PEM."""
        return self._files.write_file(f"{self._file_name}.key.pem", self.key)

    @property
    def key_store_path(self) -> str:
        """Path of one PEM file with private key and certificate, as for Java's `ssl.keystore.location`."""
        return self._files.write_file(f"{self._file_name}.pem", self.key + self.certificate)

    @property
    def pkcs12_path(self) -> str:
        """Path of private key and certificate as PKCS#12, encrypted with `pkcs12_password`."""
        return self._files.write_file(
            f"{self._file_name}.p12", self._identity.pkcs12(self.name, self.pkcs12_password, self.ca)
        )

    @property
    def pkcs12_password(self) -> str:
        return PASSWORD

    # For clients. Without `with_certificate` they send none, which `ssl.client.auth=required` refuses.

    def ssl_context(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        """Return an `ssl.SSLContext` for clients that accept one."""
        context = ssl.create_default_context(cadata=self.ca)
        if with_certificate:
            context.load_cert_chain(self.key_store_path)
        return context

    def kafka_python(self, *, with_certificate: bool = True) -> dict[str, Any]:
        """Keyword arguments of KafkaProducer, KafkaConsumer, KafkaAdminClient."""
        options = {"security_protocol": "SSL", "ssl_cafile": self.ca_path}
        if with_certificate:
            options |= {"ssl_certfile": self.certificate_path, "ssl_keyfile": self.key_path}
        return options

    def aiokafka(self, *, with_certificate: bool = True) -> dict[str, Any]:
        """Keyword arguments of AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaAdminClient."""
        return {"security_protocol": "SSL", "ssl_context": self.ssl_context(with_certificate=with_certificate)}

    def confluent_kafka(self, *, with_certificate: bool = True) -> dict[str, str]:
        """Properties of confluent-kafka, and of other clients that use librdkafka."""
        options = {"security.protocol": "SSL", "ssl.ca.pem": self.ca}
        if with_certificate:
            options |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key}
        return options

    def java(self, *, with_certificate: bool = True) -> dict[str, str]:
        """Properties of Java clients, of Apache Kafka's tools (`--command-config`) and of `ottla`'s."""
        options = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_path,
        }
        if with_certificate:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.key_store_path}
        return options

    @property
    def security(self) -> Security:
        """Settings for Ottla's own client."""
        return Security(self.ssl_context())


def dev_certificates(now_ms: int) -> tuple[Mapping[str, str], Tls]:
    """Make a new authority; return the broker options of a listener, and the client settings.

    Raises:
        ConfigError: `cryptography` is not installed.
    """
    authority = Authority(now_ms)
    files = PemFiles("ottla-tls-")
    return listener_options(authority, HOSTS), Tls(authority, files, USER_NAME, authority.issue(USER_NAME), 0)


def listener_options(authority: Authority, hosts: Iterable[str]) -> dict[str, str]:
    """Return the broker options of listeners at `hosts`, with a certificate signed by the authority.

    Client certificates are optional.
    """
    server = authority.issue("localhost", hosts)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key,
        "ssl.keystore.certificate.chain": server.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate,
        "ssl.client.auth": "requested",
    }
