"""Everything that must exist before clients connect: topics, groups, users, ACLs, tokens. Created over the plain listener."""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.client.connection import Client
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security

from .actions import ACTIONS, TABLE, G, T, X
from .logins import BECOMES_BAD, LISTENERS, SCRAM_256, SCRAM_512, SCRAMS, TOKEN, Cell
from .rights import ALLOW, LITERAL, OPERATIONS, RESOURCE_TYPES, TOPIC, entries, kinds_for
from .world import ACTING_AT, ALICE, PASSWORD, World, acting_user

Row = TypeVar("Row")
SEEN = "only-alice"
"""The topic that only correctly authenticated users may see."""
SEERS = (f"User:{ALICE}", "User:CN=client")
SCRAM_NUMBERS = {SCRAM_256: 1, SCRAM_512: 2}
DIGESTS = {SCRAM_256: "sha256", SCRAM_512: "sha512"}
SALT, ITERATIONS = b"a-salt", 4096
ONLY = {SCRAM_256: "only-256", SCRAM_512: "only-512"}
DELETED = "deleted"
BATCH = 200
ASKED_S = 30.0
HOLDS_S = 2.0
"""The time until Apache Kafka's broker has the controller's update."""
SOON_MS = 1_000
NOT_FOUND = 91
"""The error of a user who was created a moment ago."""
AGAIN = {14, 15, 16, 3, 5, 6, 51}
"""A coordinator or a leader that is not there yet, and what is still going on."""


@dataclass(frozen=True)
class ActionCell:
    """An action by a user who has its rights in one of the ways."""

    action: str
    kind: str

    @property
    def id(self) -> str:
        return f"{self.action} / {self.kind}"

    def name(self, client: str) -> str:
        """Return the name of the cell's topic, group and transactional id."""
        return f"{client}.{self.action}.{self.kind}"


def action_cells(kinds: Sequence[str] | None = None) -> Iterator[ActionCell]:
    """Yield all action cells, or those of these kinds."""
    for action in TABLE:
        for kind in kinds_for(action.needs):
            if kinds is None or kind in kinds or not action.needs:
                yield ActionCell(action.name, kind)


class Scene:
    """The resources created at one broker, and the logins that need them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._address = _address(world.addresses["PLAINTEXT"])
        self._tokens: dict[str, tuple[str, str]] = {}
        self._hmacs: dict[str, bytes] = {}

    def build(self, clients: Iterable[str], cells: Iterable[ActionCell]) -> None:
        """Everything, for these clients."""
        clients = list(clients)
        named = [(cell, cell.name(client)) for client in clients for cell in cells]
        with self._client() as client:
            with_topic = [name for cell, name in named if T in ACTIONS[cell.action].scene]
            self._topics(client, [SEEN, *with_topic])
            self._users(client, clients)
            self._rights(client, named)
            self._records(client, with_topic)
            for cell, name in named:
                if G in ACTIONS[cell.action].scene:
                    self._committed(client, name)
                if X in ACTIONS[cell.action].scene:
                    self._registered(client, name)
        self._delegation_tokens(clients)
        time.sleep(HOLDS_S)

    # -- logins

    def login(self, cell: Cell, client: str) -> dict[str, Any]:
        """Return a driver's line for a login: the listener, the user and the credentials."""
        world, keys = self.world, self.world.certificates
        listener_protocol = _protocol(cell)
        line: dict[str, Any] = {"bootstrap": world.addresses[cell.listener], "protocol": listener_protocol}
        if listener_protocol.endswith("SSL"):
            line["ca"] = str(world.foreign_ca if cell.credentials == "wrong CA" else keys.ca)
            if cell.credentials == "no CA":
                del line["ca"]
            if shown := _shown(world, cell):
                line |= {"certificate": str(shown), "key": str(shown)}
        if listener_protocol.startswith("SASL"):
            line |= self._credentials(cell, client)
        return line

    def _credentials(self, cell: Cell, client: str) -> dict[str, Any]:
        if cell.mechanism == TOKEN:
            name = cell.credentials if cell.credentials != BECOMES_BAD else f"{BECOMES_BAD} {client}"
            token_id, hmac = self._tokens.get(name, self._tokens["good"])
            if cell.credentials == "wrong HMAC":
                hmac = b64encode(b"no hmac at all").decode()
            flag = {} if cell.credentials == "not said to be a token" else {"is_token_login": True}
            return {"mechanism": SCRAM_512, "username": token_id, "password": hmac, **flag}
        if cell.mechanism == "OAUTHBEARER":
            return {"mechanism": cell.mechanism, "token": self._bearer_token(cell.credentials)}
        user = {
            "unknown user": "nobody-knows",
            "deleted user": DELETED,
            "user of the other SCRAM mechanism": ONLY[SCRAM_512 if cell.mechanism == SCRAM_256 else SCRAM_256],
            BECOMES_BAD: _fading(client, cell.mechanism),
        }.get(cell.credentials, ALICE)
        password = {"wrong password": "another", "empty password": ""}.get(cell.credentials, PASSWORD)
        return {"mechanism": cell.mechanism, "username": user, "password": password}

    def _bearer_token(self, kind: str) -> str:
        issuer = self.world.issuer
        match kind:
            case "expired":
                return issuer.token(ALICE, lives_s=60, issued_s_ago=7200)
            case "of another key":
                return issuer.stranger_token(ALICE)
            case "of another audience":
                return issuer.token(ALICE, aud="others")
            case "of another issuer":
                return issuer.token(ALICE, iss="https://others.test")
            case "without a subject":
                return issuer.token(ALICE, sub=None)
            case "no token":
                return "no-token"
        return issuer.token(ALICE)

    def acting(self, cell: ActionCell) -> dict[str, Any]:
        """Return the login of the user who carries out an action."""
        return {
            "bootstrap": self.world.addresses[ACTING_AT],
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "PLAIN",
            "username": acting_user(cell.action, cell.kind),
            "password": PASSWORD,
        }

    def let_fade(self, client: str) -> None:
        """Invalidate the credentials of this client's users at the listener of short sessions."""
        with self._client() as connection:
            for mechanism in SCRAMS:
                self._deleted(connection, _fading(client, mechanism), mechanism)
        with self._as_alice() as connection:
            self._revoke(connection, f"{BECOMES_BAD} {client}")

    # -- the parts of the scene

    def _client(self) -> Client:
        return Client(*self._address, timeout_s=60)

    def _as_alice(self) -> Client:
        login = Credentials("PLAIN", username=ALICE, password=PASSWORD)
        return Client(*_address(self.world.addresses[ACTING_AT]), timeout_s=60, security=Security(login=login))

    def _topics(self, client: Client, names: list[str]) -> None:
        for some in _parts(names):
            topics = tuple(CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in some)
            for row in client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000)).topics:
                _expect(row.error_code, row.name)

    def _records(self, client: Client, names: list[str]) -> None:
        records = bytes(build_batch([(0, time.time_ns() // 1_000_000, b"k", b"v", ())]))
        for name in names:
            rows = (PartitionProduceData(index=0, records=records),)
            request = ProduceRequest(
                acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=name, partition_data=rows),)
            )
            _repeated(partial(_produced, client, request), name)

    def _committed(self, client: Client, name: str) -> None:
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=(name,)))
        rows = (OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
        request = OffsetCommitRequest(group_id=name, topics=(OffsetCommitRequestTopic(name=name, partitions=rows),))
        _repeated(lambda: client.ask(request, 8).topics[0].partitions[0].error_code, name)

    def _registered(self, client: Client, name: str) -> None:
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=(name,)))
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        _repeated(lambda: client.ask(request, 4).error_code, name)

    def _users(self, client: Client, clients: Iterable[str]) -> None:
        users = [(ALICE, one) for one in SCRAMS] + [(DELETED, one) for one in SCRAMS]
        users += [(name, one) for one, name in ONLY.items()]
        users += [(_fading(each, one), one) for each in clients for one in SCRAMS]
        for mechanism in SCRAMS:  # of a user no two credentials change in one request
            upsertions = tuple(_credential(name, one) for name, one in users if one == mechanism)
            for row in client.ask(AlterUserScramCredentialsRequest(upsertions=upsertions)).results:
                _expect(row.error_code, row.user)
            self._deleted(client, DELETED, mechanism)

    @staticmethod
    def _deleted(client: Client, user: str, mechanism: str) -> None:
        gone = (ScramCredentialDeletion(name=user, mechanism=SCRAM_NUMBERS[mechanism]),)
        request = AlterUserScramCredentialsRequest(deletions=gone)
        _repeated(lambda: client.ask(request).results[0].error_code, user, {NOT_FOUND})

    def _rights(self, client: Client, named: list[tuple[ActionCell, str]]) -> None:
        seers = [*SEERS, *(f"User:{user}" for user in self._fading_users(named))]
        rows = [
            AclCreation(
                resource_type=RESOURCE_TYPES[TOPIC],
                resource_name=SEEN,
                resource_pattern_type=LITERAL,
                principal=seer,
                host="*",
                operation=OPERATIONS["DESCRIBE"],
                permission_type=ALLOW,
            )
            for seer in seers
        ]
        rows += [
            AclCreation(
                resource_type=entry.resource_type,
                resource_name=entry.name,
                resource_pattern_type=entry.pattern_type,
                principal=f"User:{acting_user(cell.action, cell.kind)}",
                host="*",
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for cell, name in named
            for entry in entries(ACTIONS[cell.action].needs, cell.kind, name)
        ]
        for some in _parts(rows):
            for row in client.ask(CreateAclsRequest(creations=some)).results:
                _expect(row.error_code, row.error_message or "")

    @staticmethod
    def _fading_users(named: list[tuple[ActionCell, str]]) -> set[str]:
        return {_fading(name.partition(".")[0], mechanism) for _, name in named for mechanism in SCRAMS}

    def _delegation_tokens(self, clients: Iterable[str]) -> None:
        with self._as_alice() as connection:
            for name in ("good", "expired", "revoked", *(f"{BECOMES_BAD} {client}" for client in clients)):
                lifetime_ms = SOON_MS if name == "expired" else -1
                made = connection.ask(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms), 2)
                _expect(made.error_code, name)
                self._tokens[name] = made.token_id, b64encode(made.hmac).decode()
                self._hmacs[name] = made.hmac
            time.sleep(SOON_MS / 1000)
            self._revoke(connection, "revoked")

    def _revoke(self, connection: Client, name: str) -> None:
        request = ExpireDelegationTokenRequest(hmac=self._hmacs[name], expiry_time_period_ms=-1)
        _repeated(lambda: connection.ask(request, 2).error_code, name, {62})


def _parts(rows: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    for start in range(0, len(rows), BATCH):
        yield tuple(rows[start : start + BATCH])


def _credential(user: str, mechanism: str) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=SCRAM_NUMBERS[mechanism],
        iterations=ITERATIONS,
        salt=SALT,
        salted_password=hashlib.pbkdf2_hmac(DIGESTS[mechanism], PASSWORD.encode(), SALT, ITERATIONS),
    )


def _produced(client: Client, request: ProduceRequest) -> int:
    (topic,) = client.ask(request, 9).responses
    return int(topic.partition_responses[0].error_code)


def _protocol(cell: Cell) -> str:
    spoken = {
        "plain client": "PLAINTEXT",
        "TLS client": "SSL",
        "SASL client": "SASL_PLAINTEXT",
    }
    own = LISTENERS[cell.listener].protocol
    return own.removeprefix("SASL_") if cell.credentials == "client without SASL" else spoken.get(cell.credentials, own)


def _shown(world: World, cell: Cell) -> Any:
    keys = world.certificates
    shown = {
        "good certificate": keys.client,
        "expired certificate": keys.expired,
        "certificate of another CA": keys.stranger,
    }.get(cell.credentials)
    return keys.client if cell.listener == "SASL_SSL_REQUIRED" and cell.credentials == "good" else shown


def _fading(client: str, mechanism: str) -> str:
    return f"fading-{client}-{mechanism}"


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _expect(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"the scene: {what}: error {code}")


def _repeated(ask: Any, what: str, again: set[int] = AGAIN) -> None:
    """Repeat a request until it succeeds."""
    deadline = time.monotonic() + ASKED_S
    while (code := ask()) in again and time.monotonic() < deadline:
        time.sleep(0.05)
    _expect(code, what)
