"""SCRAM as RFC 7677 shows it, and the errors of messages that are refused."""

from __future__ import annotations

import random
import re
from base64 import b64decode, b64encode
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from ottla.protocol.scram import ITERATIONS_MIN, ScramCredential, credential_of, mac, salted, xor
from ottla.server.client.sasl import Credentials
from ottla.server.client.values import UnreachableError
from ottla.server.config.sasl.users import User
from ottla.server.security.principal import Principal, UnprovenError
from ottla.server.security.sasl.passwords import ScramConversation
from ottla.server.security.sasl.scram_users import ScramUsers, facts_of

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO"
MORE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
OWNER = Principal("User", "alice", is_by_token=True)


def credential(password: str = "pencil", mechanism: str = SHA_256) -> ScramCredential:
    return credential_of(mechanism, salted(mechanism, password, SALT, ITERATIONS_MIN), SALT, ITERATIONS_MIN)


def users(*names: str, mechanism: str = SHA_256) -> ScramUsers:
    made = ScramUsers()
    for name in names:
        made.put(name, {mechanism: credential(mechanism=mechanism)})
    return made


def conversation(mechanism: str = SHA_256, *names: str, tokens: Any = None) -> ScramConversation:
    there = users(*(names or ("user",)), mechanism=mechanism)
    return ScramConversation(mechanism, there, tokens, b"secret", trio.CapacityLimiter(1), lambda: MORE)


async def test_the_example_of_the_rfc() -> None:
    broker = conversation()
    first = await broker.respond(f"n,,n=user,r={NONCE}".encode(), 0)
    assert first.decode() == f"r={NONCE}{MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert broker.principal is None
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = await broker.respond(f"c=biws,r={NONCE}{MORE},p={proof}".encode(), 0)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert str(broker.principal) == "User:user" and broker.expires_ms is None


async def both(broker: ScramConversation, client: Credentials) -> None:
    tokens = client.tokens()
    token = next(tokens)
    while True:
        answer = await broker.respond(token, 0)
        try:
            token = tokens.send(answer)
        except StopIteration:
            return


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("name", ["user", "a,b=c", "=2C", "User Name"])
async def test_our_client_and_our_broker_understand_each_other(mechanism: str, name: str) -> None:
    broker = conversation(mechanism, name)
    await both(broker, Credentials(mechanism, name, "pencil"))
    assert broker.principal == Principal("User", name)


@pytest.mark.parametrize(("name", "password"), [("user", "pen"), ("nobody", "pencil"), ("nobody", "")])
async def test_a_wrong_password_and_a_user_that_is_not_there_fail_alike(name: str, password: str) -> None:
    broker = conversation()
    with pytest.raises(UnprovenError, match="invalid client credentials", check=lambda error: not error.is_told):
        await both(broker, Credentials(SHA_256, name, password))
    assert broker.principal is None


async def test_a_user_that_is_not_there_has_a_salt_of_its_own_and_always_the_same() -> None:
    firsts = [(await conversation().respond(f"n,,n={name},r=x".encode(), 0)).decode() for name in ("a", "b", "a")]
    assert firsts[0] == firsts[2] != firsts[1]
    assert firsts[0].endswith(",i=4096")
    assert len(b64decode(firsts[0].split(",s=")[1].split(",")[0])) == 26


def test_what_clients_have_set_of_a_user_of_a_start_stays_when_that_goes() -> None:
    first = ScramUsers()
    first.begin_with([User("user", "pencil")], random.Random(1))
    changed = {**first.credentials_of("user"), SHA_256: credential()}
    stored = first.facts("user", changed)
    first.put("user", changed)
    assert first.facts("user", first.credentials_of("user")) == stored
    second = ScramUsers()
    assert second.load({"user": stored}) == []
    assert second.begin_with([], random.Random(1)) == {"user": facts_of({SHA_256: credential()})}
    assert second.credentials_of("user") == {SHA_256: credential()}


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
async def test_no_salt_tells_whether_its_user_is_there(mechanism: str) -> None:
    there = ScramUsers()
    there.begin_with([User("user", "pencil")], random.Random(1))
    salts = []
    for name in ("user", "ghost"):
        broker = ScramConversation(mechanism, there, None, b"secret", trio.CapacityLimiter(1), lambda: MORE)
        said = (await broker.respond(f"n,,n={name},r=x".encode(), 0)).decode()
        salts.append(b64decode(said.split(",s=")[1].split(",")[0]))
    assert all(re.fullmatch(rb"[a-z0-9]{26}", salt) for salt in salts)


async def test_nobody_proves_the_keys_of_a_user_that_is_not_there() -> None:
    """A client that knows the secret could compute these keys, and is refused nevertheless."""
    broker = conversation()
    said = (await broker.respond(b"n,,n=ghost,r=x", 0)).decode()
    made = mac(SHA_256, b"secret", b"ghost")
    keys = credential_of(SHA_256, made, b"", ITERATIONS_MIN)
    final = f"c=biws,r=x{MORE}"
    proof = xor(
        mac(SHA_256, made, b"Client Key"), mac(SHA_256, keys.stored_key, f"n=ghost,r=x,{said},{final}".encode())
    )
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await broker.respond(f"{final},p={b64encode(proof).decode()}".encode(), 0)


MALFORMED_FIRST = {
    "nothing": b"",
    "not Unicode": b"n,,n=\xff,r=x",
    "not ASCII": "n,,n=käthe,r=x".encode(),
    "channel binding": b"p=tls-unique,,n=user,r=x",
    "no nonce": b"n,,n=user",
    "an empty nonce": b"n,,n=user,r=",
    "an empty name": b"n,,n=,r=x",
    "a bare equals sign": b"n,,n=us=er,r=x",
    "a final message": b"c=biws,r=x,p=AAAA",
    "much": b"n,,n=user,r=" + b"x" * 10_000,
}


@pytest.mark.parametrize("message", MALFORMED_FIRST.values(), ids=MALFORMED_FIRST.keys())
async def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await conversation().respond(message, 0)


MALFORMED_FINAL = {
    "nothing": "",
    "another nonce": f"c=biws,r={NONCE}x,p=AAAA",
    "no proof": f"c=biws,r={NONCE}{MORE}",
    "no Base64": f"c=biws,r={NONCE}{MORE},p=!!!!",
    "a short proof": f"c=biws,r={NONCE}{MORE},p=AAAA",
    "half of Base64": f"c=biws,r={NONCE}{MORE},p=A",
}


@pytest.mark.parametrize("message", MALFORMED_FINAL.values(), ids=MALFORMED_FINAL.keys())
async def test_a_malformed_final_message_is_refused(message: str) -> None:
    broker = conversation()
    await broker.respond(f"n,,n=user,r={NONCE}".encode(), 0)
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await broker.respond(message.encode(), 0)
    assert broker.principal is None


async def test_nobody_logs_in_for_another() -> None:
    with pytest.raises(
        UnprovenError, match="authorization id that is different from username", check=lambda error: error.is_told
    ):
        await conversation().respond(b"n,a=other,n=user,r=x", 0)
    assert await conversation().respond(b"n,a=user,n=user,r=x", 0)


def test_our_client_does_not_believe_a_broker_that_does_not_know_the_password() -> None:
    tokens = Credentials(SHA_256, "user", "pencil").tokens()
    first = next(tokens).decode()
    tokens.send(f"r={first.split('r=')[1]}x,s=AAAA,i=4096".encode())
    with pytest.raises(UnreachableError, match="knows the password"):
        tokens.send(b"v=AAAA")


@pytest.mark.parametrize("said", [b"", b"r=other,s=AAAA,i=4096", b"e=other-error", b"r=,s=AAAA,i=4096"])
def test_our_client_minds_what_a_broker_says(said: bytes) -> None:
    tokens = Credentials(SHA_256, "user", "pencil").tokens()
    next(tokens)
    with pytest.raises(UnreachableError):
        tokens.send(said)


def test_our_client_does_not_work_for_ever() -> None:
    tokens = Credentials(SHA_256, "user", "pencil").tokens()
    nonce = next(tokens).decode().split("r=")[1]
    with pytest.raises(UnreachableError, match=r"SCRAM iterations \(999999999"):
        tokens.send(f"r={nonce}x,s=AAAA,i=999999999".encode())


@pytest.mark.parametrize(
    ("asked", "why"), [("s=AAAA,i=4095", "SCRAM iterations .4095"), ("s=A,i=4096", "invalid first SCRAM message")]
)
def test_our_client_proves_nothing_by_what_is_too_weak_or_no_salt(asked: str, why: str) -> None:
    tokens = Credentials(SHA_256, "user", "pencil").tokens()
    nonce = next(tokens).decode().split("r=")[1]
    with pytest.raises(UnreachableError, match=why):
        tokens.send(f"r={nonce}x,{asked}".encode())


class OneToken:
    def login(self, token_id: str, now_ms: int) -> Any:
        login = SimpleNamespace(principal=OWNER, password="hmac", expires_ms=5)
        return login if (token_id, now_ms) == ("id", 0) else None


async def test_a_delegation_token_logs_in_its_owner_until_it_expires() -> None:
    broker = conversation(tokens=OneToken())
    await both(broker, Credentials(SHA_256, "id", "hmac", is_token=True))
    assert broker.principal == OWNER and broker.principal.is_by_token
    assert broker.expires_ms == 5


@pytest.mark.parametrize("tokens", [None, OneToken()])
@pytest.mark.parametrize(("name", "password"), [("id", "wrong"), ("user", "pencil"), ("other", "hmac")])
async def test_nothing_else_logs_in_as_a_token(tokens: Any, name: str, password: str) -> None:
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await both(conversation(tokens=tokens), Credentials(SHA_256, name, password, is_token=True))


async def test_a_token_is_no_user() -> None:
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await both(conversation(tokens=OneToken()), Credentials(SHA_256, "id", "hmac"))


def test_what_is_stored_is_read_as_it_was_written() -> None:
    written = users("user")
    read = ScramUsers()
    assert read.load({"user": facts_of(written.credentials_of("user"))}) == []
    assert read.credentials_of("user") == written.credentials_of("user")


STORED = facts_of({SHA_256: credential()})
NO_CREDENTIALS: dict[str, Any] = {
    "another mechanism": {"SCRAM-SHA-1": STORED[SHA_256]},
    "no mechanisms": {SHA_256: 1},
    "a missing key": {SHA_256: {"iterations": 4096, "salt": ""}},
    "few iterations": {SHA_256: STORED[SHA_256] | {"iterations": 4095}},
    "a short key": {SHA_256: STORED[SHA_256] | {"stored_key": "AAAA"}},
    "no Base64": {SHA_256: STORED[SHA_256] | {"salt": "!"}},
}


@pytest.mark.parametrize("facts", NO_CREDENTIALS.values(), ids=NO_CREDENTIALS.keys())
def test_what_is_stored_and_makes_no_sense_is_told_in_a_line(facts: dict[str, Any]) -> None:
    read = ScramUsers()
    assert read.load({"user": facts, "other": STORED}) == [
        "stored SCRAM credentials of user 'user' ignored: not supported by this version"
    ]
    assert list(read.names()) == ["other"]


def test_no_repr_shows_a_secret() -> None:
    shown = repr(credential()) + repr(Credentials(SHA_256, "user", "pencil", token="pencil"))
    assert "pencil" not in shown and "key=" not in shown
