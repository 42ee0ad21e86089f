"""AlterUserScramCredentials and DescribeUserScramCredentials, and logins with these credentials, also after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.scram import salted
from ottla.server.client.connection import Client
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security
from ottla.server.client.values import UnreachableError
from support.broker.conversation import address
from support.broker.raw_client import RawClient

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
CODES = {SHA_256: 1, SHA_512: 2}
SALT = b"salt-of-a-user"
TWO = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path, overrides=TWO) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as client:
        yield client


def upsertion(
    name: str = "alice", password: str = "secret", mechanism: str = SHA_256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=CODES[mechanism],
        iterations=iterations,
        salt=SALT,
        salted_password=salted(mechanism, password, SALT, max(1, iterations)),
    )


def deletion(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(client: Client, *wishes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in wishes if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in wishes if isinstance(each, ScramCredentialUpsertion)),
    )
    return {row.user: (row.error_code, row.error_message) for row in client.ask(request).results}


def described(client: Client, *names: str) -> dict[str, Any]:
    rows = client.ask(DescribeUserScramCredentialsRequest(users=tuple(UserName(name=name) for name in names))).results
    return {
        row.user: row.error_code or {info.mechanism: info.iterations for info in row.credential_infos} for row in rows
    }


def log_in(broker: ottla.Broker, name: str = "alice", password: str = "secret", mechanism: str = SHA_256) -> None:
    host, _, port = broker.inner.nodes[0].listeners[1].address.rpartition(":")
    with Client(host, int(port), security=Security(login=Credentials(mechanism, name, password))) as client:
        assert client.ask(MetadataRequest(topics=())).brokers
        assert f"User:{name}" in {str(each.principal) for each in broker.inner.connections}


def test_a_user_logs_in_by_the_mechanism_of_its_password(broker: ottla.Broker, client: RawClient) -> None:
    assert alter(client, upsertion()) == {"alice": (0, None)}
    log_in(broker)
    for password, mechanism in (("wrong", SHA_256), ("secret", SHA_512)):
        with pytest.raises(UnreachableError, match=f"invalid credentials with SASL mechanism {mechanism}"):
            log_in(broker, password=password, mechanism=mechanism)
    alter(client, upsertion(mechanism=SHA_512, password="other", iterations=8192))
    log_in(broker)
    log_in(broker, password="other", mechanism=SHA_512)
    assert described(client) == {"alice": {1: 4096, 2: 8192}}


def test_a_changed_password_applies_from_the_next_login(broker: ottla.Broker, client: RawClient) -> None:
    alter(client, upsertion())
    alter(client, upsertion(password="new"))
    log_in(broker, password="new")
    with pytest.raises(UnreachableError):
        log_in(broker)
    assert alter(client, deletion()) == {"alice": (0, None)}
    with pytest.raises(UnreachableError):
        log_in(broker, password="new")
    assert described(client) == {}


def test_users_survive_a_crash(broker: ottla.Broker, client: RawClient) -> None:
    alter(client, upsertion(), upsertion("bob", mechanism=SHA_512))
    broker.crash()
    log_in(broker)
    with RawClient(*address(broker)) as again:
        assert described(again) == {"alice": {1: 4096}, "bob": {2: 4096}}


def test_each_user_has_its_own_result(client: RawClient) -> None:
    alter(client, upsertion("old"))
    unknown = ScramCredentialUpsertion(name="unknown", mechanism=3, iterations=4096)
    told = alter(
        client,
        deletion("old"),
        deletion("missing"),
        deletion("of.another", 2),
        deletion("", 1),
        deletion("strange", 0),
        unknown,
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("most", iterations=16384),
        upsertion("twice"),
        upsertion("twice", mechanism=SHA_512),
    )
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    missing = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    assert told == {
        "old": (0, None),
        "missing": missing,
        "of.another": missing,
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "strange": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "most": (0, None),
        "twice": twice,
    }
    assert described(client) == {"most": {1: 16384}}


def test_the_length_of_names_and_salts_is_limited(client: RawClient) -> None:
    long_salt = ScramCredentialUpsertion(name="salty", mechanism=1, iterations=4096, salt=bytes(257))
    told = alter(client, upsertion("x" * 1025), long_salt, upsertion("y" * 1024))
    assert [code for code, _ in told.values()] == [ErrorCode.UNACCEPTABLE_CREDENTIAL] * 2 + [ErrorCode.NONE]


def test_a_user_altered_twice_in_one_request_is_unchanged(client: RawClient) -> None:
    alter(client, upsertion())
    told = alter(client, deletion(), upsertion(mechanism=SHA_512), upsertion(iterations=1))
    assert told["alice"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert described(client) == {"alice": {1: 4096}}


def test_requested_users_are_described(client: RawClient) -> None:
    alter(client, upsertion(), upsertion("bob"))
    assert described(client, "bob", "carol", "bob2", "alice", "alice") == {
        "bob": {1: 4096},
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
        "bob2": ErrorCode.RESOURCE_NOT_FOUND,
        "alice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert client.ask(DescribeUserScramCredentialsRequest(users=None)).results[0].user == "alice"
