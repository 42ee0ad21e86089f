"""A broker with the maximum number of ACLs, quotas, users and subscriptions, or many; requests with and without rights.

The pinging and administering clients use a plain listener, as User:ANONYMOUS, a super user. The unauthorized user logs in by
PLAIN. The suite sends the same requests as `requests`, each at its largest, and requests that read all of the above.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from ottla.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
)
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.client.connection import Client
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security

from ..support.brokers.process import free_port
from ..support.certificates import Certificates
from ..support.clients.holds import Hold, Pinger
from .asking import TIMEOUT_S, Sender, client
from .figures import Figures
from .requests import LARGEST, one_large
from .shapes import Shape, forms
from .specials import encoded
from .values import DESTRUCTIVE, Known, Unknown, World

MANY, QUICK_MANY = 10_000, 1_000
TOKENS, QUICK_TOKENS = 300, 50
"""A smaller number, as tokens are created one by one, each with a write of the whole catalog."""
SUBSCRIPTIONS = 100
"""The maximum number."""
USER, PASSWORD = "nobody", "nobody-secret"
TOPIC, ANY, ALLOW, READ, LITERAL, PREFIXED = 2, 1, 3, 3, 3, 4
CLIENT_METRICS, GROUP_CONFIGS = 16, 32
NOBODY, ALL_ACLS = "nobody", "CreateAcls, all there are"
Frame = Callable[[], bytes]
Row = tuple[str, str, Frame]
"""Name, form, and how the frame is made."""
Watched = Callable[[Sender, Pinger, bytes, str, set[str]], Hold]
PLAIN, LOGIN, TLS = "PLAINTEXT", "SASL_PLAINTEXT", "SSL"


def overrides(certificates: Certificates) -> dict[str, str]:
    """Return options of the broker; its first listener is the plain one."""
    return certificates.broker_options() | {
        "listeners": ",".join(f"{name}://127.0.0.1:{free_port()}" for name in (PLAIN, LOGIN, TLS)),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "holds",
        "auto.create.topics.enable": "false",
    }


def port_of(given: dict[str, str], name: str) -> int:
    found = next(each for each in given["listeners"].split(",") if each.startswith(f"{name}://"))
    return int(found.rpartition(":")[2])


class LoggedIn(Sender):
    """A connection of the user without rights."""

    def _connect(self) -> None:
        # What remains is the socket: answers are thrown away, not read by its client.
        login = Credentials("PLAIN", USER, PASSWORD)
        self._client = Client(*self._address, timeout_s=TIMEOUT_S, security=Security(None, login))
        self._socket = self._client._socket


class Secured(Sender):
    """A sender over TLS. Two threads cannot share an OpenSSL connection, so everything is sent before the first read."""

    def __init__(self, bootstrap: str, tls: ssl.SSLContext) -> None:
        self._tls = tls
        super().__init__(bootstrap)

    def _connect(self) -> None:
        super()._connect()
        self._socket = self._tls.wrap_socket(self._socket, server_hostname="localhost")

    def ask(self, frames: bytes, answers: int = 1) -> bool:
        self._closed = False
        try:
            self._socket.sendall(frames)
            self._read(answers)
        except (ConnectionError, TimeoutError):
            self._closed = True
        if self._closed:
            self._socket.close()
            self._connect()
        return not self._closed

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self._socket.recv(size - len(data))
            if not got:
                raise ConnectionError("closed by the broker")
            data += got
        return data


def entry(number: int) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=TOPIC,
        resource_name=f"a{number:07}",
        resource_pattern_type=LITERAL if number % 3 else PREFIXED,
        principal=f"User:u{number % 100}",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )


def quota(number: int, value: float = 1e9) -> alter_client_quotas.EntryData:
    entity = EntityData(entity_type="user", entity_name=f"u{number:07}")
    return alter_client_quotas.EntryData(
        entity=(entity,), ops=(alter_client_quotas.OpData(key="producer_byte_rate", value=value),)
    )


def user(number: int, salt: bytes = b"salt") -> alter_user_scram_credentials.ScramCredentialUpsertion:
    return alter_user_scram_credentials.ScramCredentialUpsertion(
        name=f"u{number:07}", mechanism=1, iterations=4096, salt=salt, salted_password=bytes(32)
    )


def configs(kind: int, count: int, name: str, value: str) -> IncrementalAlterConfigsRequest:
    changed = (AlterableConfig(name=name, config_operation=0, value=value),)
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(resource_type=kind, resource_name=f"c{number:07}", configs=changed)
            for number in range(count)
        )
    )


def changes(many: int) -> dict[str, Any]:
    """Return requests that each create, or replace, `many` items of a kind."""
    quotas = tuple(quota(number, 2e9) for number in range(many))
    users = tuple(user(number, b"another salt") for number in range(many))
    return {
        ALL_ACLS: create_acls.CreateAclsRequest(creations=tuple(map(entry, range(many)))),
        "AlterClientQuotas, all there are": alter_client_quotas.AlterClientQuotasRequest(entries=quotas),
        "AlterUserScramCredentials, all there are": alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            upsertions=users
        ),
        "IncrementalAlterConfigs of client metrics": configs(CLIENT_METRICS, SUBSCRIPTIONS, "interval.ms", "60000"),
        "IncrementalAlterConfigs of groups": configs(GROUP_CONFIGS, many, "consumer.session.timeout.ms", "50000"),
    }


def fill(at: Client, given: dict[str, str], *, quick: bool) -> None:
    """Make all that there may be, or many."""
    many = QUICK_MANY if quick else MANY
    for name, request in changes(many).items():
        answer = at.ask(request)
        rows = next(value for value in vars_of(answer).values() if isinstance(value, (list, tuple)))
        if failed := [row for row in rows if row.error_code]:
            raise RuntimeError(f"{name}: {str(failed[0])[:300]}")
    login = Security(None, Credentials("PLAIN", USER, PASSWORD))
    with Client("127.0.0.1", port_of(given, LOGIN), timeout_s=TIMEOUT_S, security=login) as own:
        for _ in range(QUICK_TOKENS if quick else TOKENS):
            if code := own.ask(
                CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1)
            ).error_code:
                raise RuntimeError(f"a token was refused with {code}")


def vars_of(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__slots__}


def requests(world: World, who: str) -> Iterator[Row]:
    """Yield requests of the highest versions at their largest, about existing items; for NOBODY also about unknown ones."""
    known, unknown = Known(world), Unknown()
    for form in forms():
        if who == NOBODY:
            yield one_large(form, "unknown", Shape(form, unknown), LARGEST)
        if form.api.name not in DESTRUCTIVE:
            yield one_large(form, "known", Shape(form, known), LARGEST)


def answers(many: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield requests of a few bytes, and changes of many things or one."""
    all_acls = describe_acls.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    one = configs(CLIENT_METRICS, 1, "interval.ms", "50000")
    named = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=f"c{number:07}")
        for kind in (CLIENT_METRICS, GROUP_CONFIGS)
        for number in range(many)
    )
    asked: dict[str, Any] = {
        "DescribeAcls of all": all_acls,
        "DescribeClientQuotas of all": DescribeClientQuotasRequest(),
        "DescribeUserScramCredentials of all": DescribeUserScramCredentialsRequest(users=None),
        "DescribeDelegationToken of all": DescribeDelegationTokenRequest(owners=None),
        "ListConfigResources of all": ListConfigResourcesRequest(),
        "DescribeConfigs of client metrics and groups": DescribeConfigsRequest(resources=named),
        "Metadata of all": MetadataRequest(topics=None),
        "One ACL more": create_acls.CreateAclsRequest(creations=(entry(many + 1),)),
        "One quota": alter_client_quotas.AlterClientQuotasRequest(entries=(quota(1, 3e9),)),
        "One user": alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=(user(1, b"new salt"),)),
        "One subscription": one,
        **changes(many),
    }
    for name, request in asked.items():
        yield name, f"{many}", encoded(request)


def delete_all() -> bytes:
    meant = delete_acls.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return encoded(delete_acls.DeleteAclsRequest(filters=(meant,)))


def run(
    figures: Figures,
    given: dict[str, str],
    certificates: Certificates,
    pinger: Pinger,
    world: World,
    watched: Watched,
    *,
    quick: bool,
) -> None:
    """Ask as everybody, over each of the listeners."""
    where = {name: f"127.0.0.1:{port_of(given, name)}" for name in (PLAIN, LOGIN, TLS)}
    many = QUICK_MANY if quick else MANY
    with client(where[PLAIN]) as at:
        fill(at, given, quick=quick)
    context = ssl.create_default_context(cafile=str(certificates.ca))
    closed: set[str] = set()
    with Sender(where[PLAIN]) as admin, LoggedIn(where[LOGIN]) as nobody, Secured(where[TLS], context) as secured:
        senders: dict[str, Sender] = {NOBODY: nobody, "TLS": secured, "admin": admin}
        for who, sender in senders.items():
            few: list[Row] = [(name, form, partial(bytes, frame)) for name, form, frame in answers(many)]
            large = iter(()) if quick else requests(world, who)
            for name, form, frame in chain(few, large):
                if figures.wants(row := f"{who}: {name}"):
                    figures.measure(row, form, partial(_asked, watched, sender, pinger, frame, row, closed))
        if figures.wants(row := "admin: DeleteAcls of all"):
            again = encoded(changes(many)[ALL_ACLS])

            def delete() -> Hold:
                admin.ask(again)
                return _asked(watched, admin, pinger, delete_all, row, closed)

            figures.measure(row, f"{many}", delete)


def _asked(watched: Watched, sender: Sender, pinger: Pinger, frame: Frame, name: str, closed: set[str]) -> Hold:
    return watched(sender, pinger, frame(), name, closed)
