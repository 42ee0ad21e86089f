"""Delegation tokens: created, described, renewed, expired, kept; the required rights, and logging in with them."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.server.broker.broker import Broker
from ottla.server.cluster import token_changes
from ottla.server.config.options.security_options import STANDARD
from ottla.server.runtime.time_slices import TimeSlice
from ottla.server.security.acls.acl import parse
from ottla.server.security.principal import Principal
from ottla.server.security.tokens import Token, Tokens
from ottla.server.services.context import Context
from support.broker.contexts import Staying
from support.broker.in_process_broker import NOW_MS, InProcessClient, pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SECRET = "not to be shown"
OPTIONS = {"authorizer_class_name": STANDARD, "super_users": "User:ANONYMOUS", "delegation_token_secret_key": SECRET}


class User(Staying):
    def __init__(self, name: str, *, by_token: bool = False) -> None:
        self.principal = Principal("User", name, by_token)


def client_of(
    broker: Broker, name: str, protocol: str = "SASL_PLAINTEXT", *, by_token: bool = False
) -> InProcessClient:
    client = InProcessClient(broker)
    node = broker.nodes[0]
    listener = copy.copy(node.listeners[0])
    listener.security_protocol = protocol
    client._context = Context(broker.services, node, listener, User(name, by_token=by_token))
    return client


@asynccontextmanager
async def with_tokens(files: CrashFiles | None = None, **options: str) -> AsyncIterator[tuple[Broker, InProcessClient]]:
    """Run a broker; yield it with a client for alice."""
    async with running(files or CrashFiles(), **(OPTIONS | options)) as (broker, _):
        yield broker, client_of(broker, "alice")


async def made(client: InProcessClient, **other: Any) -> Any:
    return await client.ask(CreateDelegationTokenRequest(**({"max_lifetime_ms": -1} | other)), 3)


async def described(client: InProcessClient, *owners: str) -> list[str]:
    rows = tuple(DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners)
    answer = await client.ask(DescribeDelegationTokenRequest(owners=rows or None), 3)
    assert answer.error_code == 0
    return [row.token_id for row in answer.tokens]


def renewers(*names: str, kind: str = "User") -> tuple[CreatableRenewers, ...]:
    return tuple(CreatableRenewers(principal_type=kind, principal_name=name) for name in names)


async def renewed(client: InProcessClient, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms), 2)
    return answer.error_code, answer.expiry_timestamp_ms


async def expired(client: InProcessClient, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms), 2)
    return answer.error_code, answer.expiry_timestamp_ms


@pytest.mark.parametrize(
    ("asked_ms", "expires_ms", "max_ms"),
    [(-1, DAY_MS, 7 * DAY_MS), (0, DAY_MS, 7 * DAY_MS), (HOUR_MS, HOUR_MS, HOUR_MS), (2**63 - 1, DAY_MS, 7 * DAY_MS)],
)
def test_a_tokens_lifetime_is_the_requested_one_within_the_limit(asked_ms: int, expires_ms: int, max_ms: int) -> None:
    async def work() -> None:
        async with with_tokens() as (_, alice):
            token = await made(alice, max_lifetime_ms=asked_ms, renewers=renewers("bob"))
            assert token.error_code == 0
            assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
            assert token.issue_timestamp_ms == NOW_MS
            assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW_MS + expires_ms, NOW_MS + max_ms)
            assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
            [shown] = (await alice.ask(DescribeDelegationTokenRequest(owners=None), 3)).tokens
            assert (shown.token_id, shown.hmac, shown.max_timestamp) == (token.token_id, token.hmac, NOW_MS + max_ms)
            assert [row.principal_name for row in shown.renewers] == ["bob"]

    run_in_order(work)


def test_a_token_logs_in_with_its_secret_until_it_expires() -> None:
    async def work() -> None:
        async with with_tokens() as (broker, alice):
            token = await made(alice, max_lifetime_ms=HOUR_MS)
            assert broker.services.token_changes is not None
            tokens = broker.services.token_changes.tokens
            login = tokens.login(token.token_id, NOW_MS + HOUR_MS)
            assert login is not None
            assert login.principal == Principal("User", "alice", is_by_token=True)
            assert login.password == base64.b64encode(token.hmac).decode()
            assert login.expires_ms == NOW_MS + HOUR_MS
            assert login.password not in repr(login)
            assert tokens.login(token.token_id, NOW_MS + HOUR_MS + 1) is None
            assert tokens.login("other", NOW_MS) is None

    run_in_order(work)


CHANNELS = {
    "a plain one": ("PLAINTEXT", "alice", False),
    "TLS without a certificate": ("SSL", "ANONYMOUS", False),
    "who came by a token": ("SASL_SSL", "alice", True),
}


@pytest.mark.parametrize(("protocol", "name", "by_token"), CHANNELS.values(), ids=CHANNELS)
def test_some_channels_may_not_request_tokens(protocol: str, name: str, by_token: bool) -> None:
    async def work() -> None:
        async with with_tokens() as (broker, alice):
            token = await made(alice)
            other = client_of(broker, name, protocol, by_token=by_token)
            refused = await made(other)
            assert (refused.error_code, refused.max_timestamp_ms, refused.hmac) == (64, -1, b"")
            assert await renewed(other, token.hmac) == (64, -1)
            assert await expired(other, token.hmac) == (64, -1)
            assert (await other.ask(DescribeDelegationTokenRequest(owners=None), 3)).error_code == 64

    run_in_order(work)


def test_without_a_secret_key_tokens_are_disabled() -> None:
    async def work() -> None:
        async with with_tokens(delegation_token_secret_key="") as (_, alice):
            refused = await made(alice)
            assert (refused.error_code, refused.max_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
            assert await renewed(alice, b"x") == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
            assert (await alice.ask(DescribeDelegationTokenRequest(owners=None), 3)).error_code == 61

    run_in_order(work)


def test_tokens_for_other_owners_need_create_tokens_and_renewers_are_users() -> None:
    async def work() -> None:
        async with with_tokens() as (broker, alice):
            wanted = {"owner_principal_type": "User", "owner_principal_name": "carol"}
            assert (await made(alice, **wanted)).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            await allow(broker, "User:alice allow CREATE_TOKENS user:User:carol")
            token = await made(alice, **wanted)
            assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (
                0,
                "carol",
                "alice",
            )
            refused = await made(alice, renewers=renewers("g", kind="Group"))
            assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
            # The user who requested it is neither owner nor renewer.
            assert await described(alice) == []
            assert await expired(alice, token.hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)

    run_in_order(work)


def test_owners_of_odd_types_survive_a_restart() -> None:
    async def work() -> None:
        files = CrashFiles()
        async with with_tokens(files) as (broker, alice):
            await allow(broker, "User:alice allow ALL user:*", "User:alice allow ALL delegation-token:*")
            for kind in ("", "a:b"):
                made_for = await made(alice, owner_principal_type=kind, owner_principal_name="zed")
                assert (made_for.error_code, made_for.principal_type) == (0, kind)
        async with with_tokens(files) as (_, alice):
            answer = await alice.ask(DescribeDelegationTokenRequest(owners=None), 3)
            assert sorted(row.principal_type for row in answer.tokens) == ["", "a:b"]

    run_in_order(work)


async def allow(broker: Broker, *lines: str) -> None:
    assert broker.services.acl_changes is not None
    await broker.services.acl_changes.create(acl for line in lines for acl in parse(line))


def test_each_user_sees_the_tokens_it_owns_renews_or_may_describe() -> None:
    async def work() -> None:
        async with with_tokens() as (broker, alice):
            bob, eve = client_of(broker, "bob"), client_of(broker, "eve")
            first = (await made(alice, renewers=renewers("bob"))).token_id
            second = (await made(alice)).token_id
            assert await described(alice) == [first, second]
            assert await described(bob) == [first]
            assert await described(alice, "bob") == [first]
            assert await described(alice, "nobody") == []
            assert (await alice.ask(DescribeDelegationTokenRequest(owners=()), 3)).tokens == ()
            assert await described(eve) == []
            await allow(broker, f"User:eve allow DESCRIBE delegation-token:{second}")
            assert await described(eve) == [second]
            await allow(broker, "User:eve allow DESCRIBE_TOKENS user:User:alice")
            assert await described(eve) == [first, second]

    run_in_order(work)


def test_renewers_extend_the_expiry_up_to_the_maximum_lifetime() -> None:
    async def work() -> None:
        async with with_tokens() as (broker, alice):
            bob, eve = client_of(broker, "bob"), client_of(broker, "eve")
            token = await made(alice, max_lifetime_ms=2 * DAY_MS, renewers=renewers("bob"))
            assert await renewed(bob, token.hmac, HOUR_MS) == (0, NOW_MS + HOUR_MS)
            assert await renewed(bob, token.hmac, 5 * DAY_MS) == (0, NOW_MS + DAY_MS)
            await pass_time(broker, DAY_MS)
            assert await renewed(alice, token.hmac, 0) == (0, NOW_MS + 2 * DAY_MS)
            assert await renewed(eve, token.hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
            assert await renewed(alice, b"other") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
            await pass_time(broker, DAY_MS - 1_000)
            assert await expired(bob, token.hmac, 10) == (0, broker.clock.now_ms() + 10)

    run_in_order(work)


def test_expired_tokens_are_refused_and_removed_at_the_next_check() -> None:
    async def work() -> None:
        files = CrashFiles()
        async with with_tokens(files, delegation_token_expiry_time_ms=str(HOUR_MS // 2)) as (broker, alice):
            for by_ms in (0, 1_000):  # the first check is soon after the start
                await pass_time(broker, by_ms)
            token = await made(alice)
            await pass_time(broker, HOUR_MS // 2 + 1)
            assert await renewed(alice, token.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
            assert await expired(alice, token.hmac, 5) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
            assert await described(alice) == [token.token_id]
            await pass_time(broker, HOUR_MS)
            assert await described(alice) == []
            kept = await made(alice)
            gone = await made(alice)
            assert await expired(alice, gone.hmac) == (0, broker.clock.now_ms())
        async with with_tokens(files) as (_, alice):
            assert await described(alice) == [kept.token_id]

    run_in_order(work)


def test_thousands_of_expired_tokens_are_removed_in_time_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding the secret of one takes microseconds."""

    async def work() -> None:
        async with with_tokens() as (broker, alice):
            changes = broker.services.token_changes
            assert changes is not None
            for _ in range(20):
                await made(alice)
            sweeping, had = trio.lowlevel.current_task(), 0

            async def next_turn(self: TimeSlice) -> None:
                nonlocal had
                had += trio.lowlevel.current_task() is sweeping
                await trio.lowlevel.checkpoint()

            monkeypatch.setattr(TimeSlice, "is_over", lambda self: True)
            monkeypatch.setattr(TimeSlice, "next", next_turn)
            await changes.sweep(broker.clock.now_ms() + 100 * DAY_MS)
            monkeypatch.undo()
            assert len(changes.tokens) == 0
            assert had >= 2 * 20  # checking each, and removing it

    run_in_order(work)


def test_tokens_are_limited_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with with_tokens() as (_, alice):
            monkeypatch.setattr(token_changes, "TOKENS_MAX", 1)
            many = renewers(*map(str, range(token_changes.RENEWERS_MAX + 1)))
            assert (await made(alice, renewers=many)).error_code == ErrorCode.POLICY_VIOLATION
            assert (await made(alice, renewers=renewers("x" * 20_000))).error_code == ErrorCode.POLICY_VIOLATION
            assert (await made(alice, renewers=renewers("bob", "eve"))).error_code == 0
            assert (await made(alice)).error_code == ErrorCode.POLICY_VIOLATION
            monkeypatch.setattr(token_changes, "TOKENS_MAX", 2)
            monkeypatch.setattr(token_changes, "RENEWERS_TOGETHER_MAX", 2)
            assert (await made(alice, renewers=renewers("bob"))).error_code == ErrorCode.POLICY_VIOLATION
            assert (await made(alice)).error_code == 0

    run_in_order(work)


def test_stored_tokens_that_this_version_refuses_are_reported() -> None:
    alice = Principal("User", "alice")
    good = Token("a", alice, alice, (), 1, 2, 3).facts()
    tokens = Tokens("s")
    said = tokens.load(
        {"a": good, "b": {}, "c": good | {"owner": 5}, "d": good | {"max_ms": "x"}, "e": good | {"owner": [5, "x"]}}
    )
    assert [line.partition(" ignored: ")[0] for line in said] == [f"stored delegation token {x!r}" for x in "bcde"]
    assert [token.token_id for token in tokens.all()] == ["a"]
