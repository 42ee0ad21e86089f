"""`broker.sasl`: SASL settings for clients of a broker from `ottla.Broker(users={"alice": "secret"})`.

    with ottla.Broker(users={"alice": "secret"}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **broker.sasl("alice").kafka_python())
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", **broker.sasl().confluent_kafka()})

If the broker uses TLS, they include the TLS settings.

`mechanism="OAUTHBEARER"` has no passwords: the broker gets a token issuer of its own, which issues tokens for any user
that `broker.sasl` or `broker.token` names, by the broker's clock.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...storage.topics.options import ConfigError
from ..client.sasl import Credentials
from ..client.security import Security
from ..config.sasl.mechanisms import OAUTH_MODULE, PLAIN, PLAIN_MODULE, SCRAM_MODULE
from ..config.sasl.options import OAUTHBEARER
from ..config.sasl.users import User, quoted
from ..runtime.clock import wall_time_ms
from .tls import PemFiles

if TYPE_CHECKING:
    from .tls import Tls

KAFKA_PYTHON_MODULES = ("kafka.net.sasl.oauth", "kafka.sasl.oauth", "kafka.oauth.abstract")
OAUTH_LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
LIFETIME_S = 3600.0
RENEWED_S = 5.0
"""Lifetime of a token that librdkafka is given. It uses its own clock, and would keep an expired token after the
broker's clock has been moved.
"""

ISSUER = AUDIENCE = "ottla"
"""Claims of the tokens that a broker of `ottla.Broker` issues, and accepts."""
_KEY_ID = "1"


class Issuer:
    """Token issuer for OAUTHBEARER in tests: a key pair, and tokens that it has signed. It ends with its broker.

    Raises:
        ConfigError: What makes signatures is not installed.
    """

    def __init__(self) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        except ImportError:
            raise ConfigError("mechanism OAUTHBEARER needs PyJWT: pip install 'ottla[oauth]'") from None
        self._encode = jwt.encode
        self._key = generate_private_key(SECP256R1())
        self._numbers = itertools.count(1)
        row = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.jwks = json.dumps({"keys": [{**row, "kid": _KEY_ID, "use": "sig"}]})
        """The public key, in the form of `sasl.oauthbearer.jwks.endpoint.url`."""

    def token(self, user: str, now_ms: int, lifetime_s: float, scope: str) -> str:
        """Return a token for this user, valid from now on for this lifetime; with a negative lifetime it has expired."""
        now_s = now_ms / 1000
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "iat": min(now_s, now_s + lifetime_s),
            "exp": now_s + lifetime_s,
            "jti": str(next(self._numbers)),
        }
        return str(
            self._encode(claims | ({"scope": scope} if scope else {}), self._key, "ES256", headers={"kid": _KEY_ID})
        )


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL settings of one user for each client library; they contain the password."""

    user: User
    mechanism: str
    tls: Tls | None

    @property
    def principal(self) -> str:
        """The principal that logs in, as named in ACLs and quotas."""
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

    def confluent_kafka(self) -> dict[str, Any]:
        """Properties of confluent-kafka, and of other clients that use librdkafka."""
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
        """Settings for Ottla's own client."""
        login = Credentials(self.mechanism, self.user.name, self.user.password)
        return Security(None if self.tls is None else self.tls.ssl_context(with_certificate=False), login)


@dataclass(frozen=True, slots=True)
class Bearer(Sasl):
    """SASL settings for OAUTHBEARER. A client gets a new token each time it asks for one."""

    token: Callable[[], str]
    """Returns a new token."""
    written: Callable[[str], str]
    """Writes a text to a file, which is deleted with the broker, and returns the file's path."""

    def _plain_options(self) -> dict[str, Any]:
        return {
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_oauth_token_provider": _provider(KAFKA_PYTHON_MODULES, self.token),
        }

    def aiokafka(self) -> dict[str, Any]:
        """Return the arguments of `Sasl.aiokafka`.

        aiokafka must be installed: like kafka-python, it accepts only providers of its own class.
        """

        async def token() -> str:
            return self.token()

        return super(Bearer, self).aiokafka() | {"sasl_oauth_token_provider": _provider(("aiokafka.abc",), token)}

    def confluent_kafka(self) -> dict[str, Any]:
        """Return the properties of `Sasl.confluent_kafka`; for Python only, since one is a function.

        librdkafka asks for a token during a poll.
        """
        tls = {} if self.tls is None else self.tls.confluent_kafka(with_certificate=False)
        return tls | {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.mechanism,
            "oauth_cb": lambda _config: (self.token(), wall_time_ms() / 1000 + RENEWED_S),
        }

    def java(self) -> dict[str, str]:
        """Return the properties of `Sasl.java`, with a token in a file.

        Java needs `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls` with the file's URL.
        """
        tls = {} if self.tls is None else self.tls.java(with_certificate=False)
        return tls | {
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "sasl.login.callback.handler.class": OAUTH_LOGIN_HANDLER,
            "sasl.oauthbearer.token.endpoint.url": f"file:{quote(self.written(self.token()))}",
        }

    @property
    def security(self) -> Security:
        """Settings for Ottla's own client."""
        login = Credentials(self.mechanism, renew=self.token)
        return Security(None if self.tls is None else self.tls.ssl_context(with_certificate=False), login)


def _provider(modules: Sequence[str], token: Callable[[], Any]) -> Any:
    """Return a provider of the class that a client library has in one of these modules, which differ between releases."""
    base: Any = object
    for name in modules:
        with suppress(ImportError, AttributeError):
            base = importlib.import_module(name).AbstractTokenProvider
            break
    methods = {"token": lambda self: token(), "extensions": lambda self: {}}
    return type("TokenProvider", (base,), methods)()


def sasl_for(users: Sequence[User], tls: Tls | None, name: str | None, mechanism: str | None) -> Sasl:
    """Return the result of `Running.sasl`, with its errors."""
    if not users:
        raise RuntimeError('SASL is not enabled; use ottla.Broker(users={"alice": "secret"})')
    user = users[0] if name is None else next((user for user in users if user.name == name), None)
    if user is None:
        raise ValueError(f"user {name!r} not found; users: {', '.join(user.name for user in users)}")
    chosen = user.mechanisms[0] if mechanism is None else mechanism
    if chosen not in user.mechanisms:
        raise ValueError(f"mechanism {chosen} is not enabled for {user.name} (enabled: {', '.join(user.mechanisms)})")
    return Sasl(user, chosen, tls)


class TestTokenIssuer:
    """Token issuer of one broker, and the files that its clients and the broker read.

    Raises:
        ConfigError: What makes signatures is not installed.
    """

    def __init__(self) -> None:
        self._issuer = Issuer()
        self._files = PemFiles("ottla-oauth-")
        self._number = 0

    @property
    def options(self) -> dict[str, str]:
        """Broker options of its listeners. Broker and issuer have the same clock, so no clock skew is allowed."""
        return {
            "sasl.enabled.mechanisms": OAUTHBEARER,
            "sasl.oauthbearer.jwks.endpoint.url": f"file:{quote(self._files.write_file('keys.json', self._issuer.jwks))}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "0",
        }

    def token(self, user: str, now_ms: int, lifetime_s: float, scope: str) -> str:
        if not user.strip():
            raise ValueError("user name of a token is empty")
        if not abs(lifetime_s) < 1e9:
            raise ValueError(f"lifetime_s must be less than 1e9 seconds, found {lifetime_s}")
        return self._issuer.token(user, now_ms, lifetime_s, scope)

    def sasl(self, user: str, tls: Tls | None, now_ms: Callable[[], int]) -> Sasl:

        def token() -> str:
            return self.token(user, now_ms(), LIFETIME_S, "")

        def write_token(text: str) -> str:
            self._number += 1
            return self._files.write_file(f"token-{self._number}", text)

        return Bearer(User(user, ""), OAUTHBEARER, tls, token, write_token)
