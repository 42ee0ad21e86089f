"""`broker.sasl`: what clients want in order to log in at a broker of `ottla.Broker(users={"alice": "secret"})`.

    with ottla.Broker(users={"alice": "secret"}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **broker.sasl("alice").kafka_python())
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", **broker.sasl().confluent_kafka()})

Where the broker speaks TLS, too, what that wants is among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..client.sasl import Credentials
from ..client.security import Security
from ..config.sasl.mechanisms import PLAIN, PLAIN_MODULE, SCRAM_MODULE
from ..config.sasl.users import User, quoted

if TYPE_CHECKING:
    from .tls import Tls


@dataclass(frozen=True, slots=True)
class Sasl:
    """One user's side of it. What it hands out has the password."""

    user: User
    mechanism: str
    tls: Tls | None

    @property
    def principal(self) -> str:
        """Who logs in, as ACLs and quotas name it."""
        return f"User:{self.user.name}"

    @property
    def security_protocol(self) -> str:
        """SASL_PLAINTEXT or SASL_SSL."""
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of KafkaProducer, KafkaConsumer, KafkaAdminClient."""
        tls = {} if self.tls is None else self.tls.kafka_python(with_certificate=False)
        return tls | self._plain_options()

    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaAdminClient."""
        tls = {} if self.tls is None else self.tls.aiokafka(with_certificate=False)
        return tls | self._plain_options()

    def _plain_options(self) -> dict[str, Any]:
        return {
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user.name,
            "sasl_plain_password": self.user.password,
        }

    def confluent_kafka(self) -> dict[str, str]:
        """Properties of confluent-kafka, and of whatever else is built on librdkafka."""
        tls = {} if self.tls is None else self.tls.confluent_kafka(with_certificate=False)
        return tls | {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user.name,
            "sasl.password": self.user.password,
        }

    def java(self) -> dict[str, str]:
        """Properties of Java clients, of Apache Kafka's tools (`--command-config`) and of `ottla`'s."""
        tls = {} if self.tls is None else self.tls.java(with_certificate=False)
        module = PLAIN_MODULE if self.mechanism == PLAIN else SCRAM_MODULE
        name, password = quoted(self.user.name), quoted(self.user.password)
        return tls | {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
        }

    @property
    def security(self) -> Security:
        """For Ottla's own client."""
        login = Credentials(self.mechanism, self.user.name, self.user.password)
        return Security(None if self.tls is None else self.tls.ssl_context(with_certificate=False), login)


def sasl_for(users: Sequence[User], tls: Tls | None, name: str | None, mechanism: str | None) -> Sasl:
    """What `Running.sasl` gives; raises as that."""
    if not users:
        raise RuntimeError('nobody logs in at the broker: use ottla.Broker(users={"alice": "secret"})')
    user = users[0] if name is None else next((user for user in users if user.name == name), None)
    if user is None:
        raise ValueError(f"there is no user {name!r}; there are: {', '.join(user.name for user in users)}")
    chosen = user.mechanisms[0] if mechanism is None else mechanism
    if chosen not in user.mechanisms:
        raise ValueError(f"{user.name} does not log in by {chosen}, but by {', '.join(user.mechanisms)}")
    return Sasl(user, chosen, tls)
