"""Keys and certificates for suites, in files that both brokers and all clients read."""

import time
from pathlib import Path

from ottla.server.security.tls.dev_certificates import Authority, Identity

DAY_MS = 86_400_000
HOSTS = ("localhost", "127.0.0.1")


class Certificates:
    """An authority, a server, and clients, in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.now_ms = time.time_ns() // 1_000_000
        self.authority = Authority(self.now_ms)
        self.ca = directory / "ca.pem"
        self.ca.write_text(self.authority.certificate)
        self.server = self.written("server", self.authority.issue("localhost", HOSTS))
        self.client = self.written("client", self.authority.issue("client"))
        late = self.authority.issue("late", begins_ms=self.now_ms - 40 * DAY_MS, days=30)
        self.expired = self.written("expired", late)
        self.stranger = self.written("stranger", Authority(self.now_ms).issue("client"))

    def written(self, name: str, identity: Identity) -> Path:
        """Return a file with key and certificate."""
        path = self.directory / f"{name}.pem"
        path.write_text(identity.key + identity.certificate)
        return path

    def broker_options(self, client_auth: str = "none") -> dict[str, str]:
        """Return the TLS options, which Ottla and Apache Kafka have in common."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.client.auth": client_auth,
        }

    def librdkafka(self, client: Path | None = None) -> dict[str, str]:
        """Return client properties; `client` is the file to show."""
        shown = {} if client is None else {"ssl.certificate.location": str(client), "ssl.key.location": str(client)}
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca), **shown}
