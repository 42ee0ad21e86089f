"""Apache Kafka and Ottla with the same listeners of OAUTHBEARER, each of which takes tokens in its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ..issuer import ALLOWED, AUDIENCE, ISSUER, PACKAGE, VALIDATOR

MODULE = f"{PACKAGE}OAuthBearerLoginModule required"
UNSIGNED_VALIDATOR = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
CHECKED = {
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": f"{AUDIENCE},others",
}
LOGIN = 'unsecuredLoginStringClaim_sub="broker"'
"""With any other options Apache Kafka requires a login of its own."""
UNSIGNED_OPTIONS = 'unsecuredValidatorRequiredScope="produce consume" unsecuredValidatorAllowableClockSkewMs="10000"'


def listeners(jwks: Path, http: str, https: str, ca: Path) -> dict[str, dict[str, str]]:
    """Their options by name: keys from a file, over http and https, and none."""
    trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{ca}"'
    return {
        "file": {
            "oauthbearer.sasl.jaas.config": f"{MODULE};",
            "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            **CHECKED,
        },
        "http": {
            "oauthbearer.sasl.jaas.config": f"{MODULE};",
            "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": http,
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.sub.claim.name": "client",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.clock.skew.seconds": "100",
        },
        "https": {
            "oauthbearer.sasl.jaas.config": f"{MODULE} {LOGIN} {trust};",
            "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": https,
            **CHECKED,
        },
        "unsigned": {
            "oauthbearer.sasl.jaas.config": f"{MODULE} {LOGIN} {UNSIGNED_OPTIONS};",
            "oauthbearer.sasl.server.callback.handler.class": UNSIGNED_VALIDATOR,
        },
    }


class AllowingKafka(ApacheKafkaProcess):
    """Apache Kafka, which fetches keys from where its properties of the system allow alone."""

    def __init__(self, urls: list[str], overrides: dict[str, str]) -> None:
        super().__init__(overrides=overrides)
        self.urls = urls

    def command(self) -> list[str]:
        program, *rest = super().command()
        files = [url.removeprefix("file://") for url in self.urls if url.startswith("file:")]
        allowed = [f"-D{ALLOWED}.urls={','.join(self.urls)}", f"-D{ALLOWED}.files={','.join(files)}"]
        return [program, *allowed, *rest]


@contextmanager
def broker(against: str, options: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[BrokerProcess, dict[str, str]]]:
    """Yield a started broker, and its addresses by listener; `options` has each listener's options."""
    addresses = {name: f"127.0.0.1:{free_port()}" for name in options}
    urls = [value for some in options.values() for name, value in some.items() if name.endswith("endpoint.url")]
    overrides = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "delegation.token.secret.key": "a-key",
        "connection.failed.authentication.delay.ms": "0",
        **{f"listener.name.{name}.{key}": value for name, some in options.items() for key, value in some.items()},
    }
    here = [f"{name.upper()}://{address}" for name, address in addresses.items()]
    kinds = ",".join(["PLAINTEXT:PLAINTEXT", *(f"{name.upper()}:SASL_PLAINTEXT" for name in addresses)])
    process: BrokerProcess
    if against == "ottla":
        arguments = tuple(each for one in here for each in ("--listener", one))
        process = OttlaProcess(overrides=overrides | {"listener.security.protocol.map": kinds}, arguments=arguments)
    else:
        kafka = process = AllowingKafka(urls, overrides)
        advertised = ",".join([f"PLAINTEXT://{kafka.bootstrap}", *here])
        kafka.overrides |= {
            "listeners": f"{advertised},CONTROLLER://127.0.0.1:{kafka.controller_port}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{kinds}",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    with process:
        yield process, addresses
