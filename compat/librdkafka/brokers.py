"""The kinds of brokers that `tests.txt` names, and what clients have to know to log in at them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

COMMON = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # New in Kafka 4.3. Its default of a second delays the assignment that a test waits for.
    "group.consumer.assignment.interval.ms": "0",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
LOGIN = COMMON | AUTHORIZER | {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}
PASSWORDS = LOGIN | {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";'
    ),
}
TOKENS = LOGIN | {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
    "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
}
# Each part of 0142 takes a fifth longer than this.
SESSIONS = {"connections.max.reauth.ms": "10000"}
WITH_PASSWORD = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "admin-secret",
}
WITH_TOKEN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "principal=admin",
}


@dataclass(frozen=True)
class Kind:
    """`options` of the broker; `client`: further lines of the tests' configuration file."""

    options: Mapping[str, str]
    client: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "default": Kind(COMMON),
    "noautocreate": Kind(COMMON | {"auto.create.topics.enable": "false"}),
    "delay": Kind(COMMON | {"group.initial.rebalance.delay.ms": "3000"}),
    "acls": Kind(COMMON | AUTHORIZER),
    "login": Kind(PASSWORDS, WITH_PASSWORD),
    "sessions": Kind(PASSWORDS | SESSIONS, WITH_PASSWORD),
    "tokens": Kind(TOKENS | SESSIONS, WITH_TOKEN),
}
