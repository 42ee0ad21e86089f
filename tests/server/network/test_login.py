"""The steps before a client of a SASL listener is served, and the end of its session."""

from __future__ import annotations

import base64
import logging
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol import connection as spoken_module
from ottla.protocol.connection import learn
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.properties import parse_server_properties
from ottla.server.config.static_config import static_config
from ottla.server.handlers import Handlers
from ottla.server.network import large_requests
from ottla.server.network.authentication.allowance import BEFORE_S, Allowance
from ottla.server.network.authentication.counts import Counts
from ottla.server.network.authentication.login import log_in as log_in_to
from ottla.server.network.dispatcher import HangUpError
from ottla.server.network.frames import FrameReader
from ottla.server.network.large_requests import Learning
from ottla.server.network.request_memory import RequestMemory
from ottla.server.network.transport import PeerGoneError, PlainTransport
from ottla.server.runtime import time_slices
from ottla.storage.topics.options import ConfigError
from support.broker.background_jobs import eventually
from support.broker.contexts import Staying
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.security.logging_in import (
    ALICES,
    PLAIN_LINE,
    SECURED,
    authenticate,
    connected,
    log_in,
    plain,
    secured,
    shake_hands,
)

METADATA = MetadataRequest(topics=None)
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with secured() as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with connected(broker) as client:
        yield client


def test_who_logs_in_is_served_under_its_name(broker: ottla.Broker, client: RawClient) -> None:
    assert client.ask(VERSIONS).error_code == ErrorCode.NONE
    answer = shake_hands(client)
    assert answer.mechanisms == ("PLAIN",)
    answer_of_login = authenticate(client, plain())
    assert (answer_of_login.error_code, answer_of_login.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert client.ask(METADATA).brokers
    assert {str(each.principal) for each in broker.inner.connections} == {"User:alice"}


def test_what_a_login_needs_is_learnt_in_another_thread(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = list[tuple[int, int]]()

    def noted(frame: memoryview) -> None:
        learnt.append(struct.unpack_from(">hh", frame))
        learn(frame)

    monkeypatch.setattr(large_requests, "learn", noted)
    monkeypatch.setattr(spoken_module, "_SPOKEN", {})
    assert client.ask(VERSIONS).error_code == ErrorCode.NONE
    assert log_in(client).error_code == ErrorCode.NONE
    assert [key for key, _ in learnt] == [18, 17, 36]


def test_tokens_may_come_without_headers_after_an_old_handshake(client: RawClient) -> None:
    send_bare(client, plain("bob", "bobs", "bob"))
    assert client.receive_frame() == b""
    assert client.ask(METADATA).brokers


def send_bare(client: RawClient, token: bytes, mechanism: str = "PLAIN") -> None:
    """Send a token without a frame header, after a handshake of version 0."""
    assert shake_hands(client, mechanism, version=0).error_code == ErrorCode.NONE
    client.send_bytes(struct.pack(">i", len(token)) + token)


def test_a_wrong_token_without_headers_has_no_answer(client: RawClient) -> None:
    send_bare(client, plain("bob", "wrong"))
    assert client.is_closed_by_peer()


@pytest.mark.parametrize(
    ("token", "told"),
    {
        "password": (plain(password="wrong"), "Authentication failed: Invalid username or password"),
        "password of another": (plain(password="bobs"), "Authentication failed: Invalid username or password"),
        "unknown user": (plain("carol"), "Authentication failed: Invalid username or password"),
        "no user": (plain(""), "Authentication failed: username not specified"),
        "no password": (plain(password=""), "Authentication failed: password not specified"),
        "in the name of another": (
            plain(authorization_id="bob"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        "two parts": (
            b"alice\0" + ALICES.encode(),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
        "nothing": (
            b"",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
        "not Unicode": (b"\0al\xffice\0x", "Authentication failed: Invalid username or password"),
    }.values(),
)
def test_who_fails_is_told_as_by_kafka_and_sent_away(client: RawClient, token: bytes, told: str) -> None:
    answer = log_in(client, token)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert client.is_closed_by_peer()


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(client: RawClient) -> None:
    answer = shake_hands(client, "SCRAM-SHA-256")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",))
    assert client.is_closed_by_peer()


UNANSWERED = ProduceRequest(acks=0, timeout_ms=1, topic_data=())
LARGE = DeleteGroupsRequest(groups_names=tuple(map(str, range(101))))
NOT_YET = {
    "another request": [(METADATA, 9)],
    "another request after ApiVersions": [(VERSIONS, 3), (METADATA, 9)],
    "ApiVersions twice": [(VERSIONS, 3), (VERSIONS, 3)],
    "a token before the handshake": [(SaslAuthenticateRequest(auth_bytes=plain()), 1)],
    "Produce that wants no answer in the midst": [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (UNANSWERED, 9)],
    "what is large in the midst": [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (LARGE, 2)],
}


@pytest.mark.parametrize("requests", NOT_YET.values(), ids=NOT_YET.keys())
def test_nothing_else_is_answered_before(client: RawClient, requests: list[tuple[object, int]]) -> None:
    *allowed, (last, version) = requests
    for request, its_version in allowed:
        client.ask(request, its_version)
    client.send(last, version)
    assert client.is_closed_by_peer()


def test_a_mechanism_that_is_taken_away_during_a_login_is_refused() -> None:
    with secured(sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256") as broker, connected(broker) as late:
        shake_hands(late)
        with connected(broker) as admin:
            log_in(admin)
            change = AlterableConfig(name="sasl.enabled.mechanisms", config_operation=0, value="SCRAM-SHA-256")
            resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=(change,))
            (row,) = admin.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
            assert (row.error_code, row.error_message) == (0, None)
        answer = authenticate(late, plain())
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "SASL mechanism PLAIN is no longer enabled",
        )
        assert late.is_closed_by_peer()


def test_authentications_are_counted_as_by_kafka() -> None:
    with reauthenticating() as broker:
        with connected(broker) as client:
            log_in(client, plain(password="wrong"))
            assert client.is_closed_by_peer()
        with connected(broker) as client:
            shake_hands(client)
            authenticate(client, plain(), version=0)
        with connected(broker) as client:
            log_in(client)
            log_in(client)
            broker.clock.advance(milliseconds=60_000)
            client.send(METADATA)
            assert client.is_closed_by_peer()
        with connected(broker) as client:
            log_in(client)
            log_in(client, plain(password="wrong"))
            assert client.is_closed_by_peer()
        told = broker.metrics()
    found = {
        name: told[f"kafka.server:type=socket-server-metrics,name={name},listener=SASL_PLAINTEXT,node=0"]
        for name in COUNTED
    }
    assert found == COUNTED


COUNTED = {
    "successful-authentication-total": 3,
    "failed-authentication-total": 1,
    "successful-reauthentication-total": 1,
    "failed-reauthentication-total": 1,
    "successful-authentication-no-reauth-total": 1,
    "expired-connections-killed-count": 1,
}

IN_THE_MIDST = {
    "a handshake": (SaslHandshakeRequest(mechanism="PLAIN"), 1, lambda answer: answer.error_code),
    "ApiVersions": (VERSIONS, 3, lambda answer: answer.error_code),
    "a list": (ListGroupsRequest(), 2, lambda answer: answer.error_code),
    "rows": (DeleteGroupsRequest(groups_names=("g",)), 2, lambda answer: answer.results[0].error_code),
}


@pytest.mark.parametrize("is_again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize(("request_", "version", "code"), IN_THE_MIDST.values(), ids=IN_THE_MIDST.keys())
def test_what_comes_in_the_midst_of_a_login_is_refused_in_its_own_answer(
    request_: Any, version: int, code: Any, is_again: bool
) -> None:
    with reauthenticating() as broker, connected(broker) as client:
        if is_again:
            log_in(client)
        shake_hands(client)
        assert code(client.ask(request_, version)) == ErrorCode.ILLEGAL_SASL_STATE
        assert client.is_closed_by_peer()


def test_words_go_with_it_where_the_answer_has_room_for_them(client: RawClient) -> None:
    shake_hands(client)
    answer = client.ask(CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1),)), 5)
    (row,) = answer.topics
    assert row.error_message == "Unexpected Kafka request of type CREATE_TOPICS during SASL authentication."


def test_versions_that_nobody_knows_are_answered_and_may_be_asked_for_again(client: RawClient) -> None:
    for _ in range(2):
        refused = client.ask(ApiVersionsRequest(client_software_name="?", client_software_version="1"), 3)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(VERSIONS, 3).error_code == ErrorCode.NONE
    assert log_in(client).error_code == ErrorCode.NONE


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 1) + b"x", struct.pack(">i", -1)])
def test_what_is_not_kafka_is_cut_off(client: RawClient, data: bytes) -> None:
    client.send_bytes(data)
    assert client.is_closed_by_peer()


@pytest.mark.parametrize(("options", "most_bytes"), [({}, 16384), ({"sasl_server_max_receive_size": "40000"}, 40000)])
def test_nobody_sends_much_before_it_is_known(options: dict[str, str], most_bytes: int) -> None:
    def size_of(token: bytes) -> int:
        return len(token) + 2 + 2 + 4 + 2 + len("ottla") + 4  # header and length of a version 1

    with secured(**options) as broker:
        for more, is_closed in ((0, False), (1, True)):
            with connected(broker) as client:
                shake_hands(client)
                spent_bytes = 0 if options else 4 + 2 + 2 + 4 + 2 + len("ottla") + 2 + len("PLAIN")
                token = bytes(most_bytes - spent_bytes - size_of(b"") + more)
                client.send(SaslAuthenticateRequest(auth_bytes=token), 1)
                if is_closed:
                    assert client.is_closed_by_peer()
                else:
                    assert client.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_client_that_is_known_may_send_much(client: RawClient) -> None:
    log_in(client)
    names = tuple(f"{number:0200}" for number in range(200))
    assert len(client.ask(MetadataRequest(topics=(), allow_auto_topic_creation=False)).brokers) == 1
    assert sum(map(len, names)) > 16384
    assert len(client.ask(DeleteGroupsRequest(groups_names=names)).results) == 200


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_is_refused_once_one_is_served(client: RawClient, version: int) -> None:
    log_in(client)
    assert shake_hands(client, version=version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(client, plain()).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(METADATA).brokers


def test_on_a_plain_listener_nobody_logs_in() -> None:
    with ottla.Broker() as broker, connected(broker) as client:
        assert shake_hands(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = authenticate(client, plain())
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
        assert client.ask(METADATA).brokers


def test_a_wrong_answer_waits_and_others_do_not() -> None:
    slowly = secured(connection_failed_authentication_delay_ms="600000")
    with slowly as broker, connected(broker) as wrong, connected(broker) as right:
        shake_hands(wrong)
        wrong.send(SaslAuthenticateRequest(auth_bytes=plain(password="wrong")), 1)
        assert log_in(right).error_code == ErrorCode.NONE
        assert eventually(broker, lambda: any(each.is_held for each in broker.inner.connections))
        assert wrong.is_open()
        broker.stop()  # which does not wait for such an answer


def test_a_secret_reaches_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), secured() as broker:
        for token in (plain(), plain(password="wrong-guess")):
            with connected(broker) as client:
                log_in(client, token)
        assert eventually(broker, lambda: not len(broker.inner.connections))
    said = caplog.text
    assert "Invalid username or password" in said
    assert ALICES not in said and "wrong-guess" not in said


def test_no_client_writes_lines_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredValidatorPrincipalClaimName="sub";'
    )
    options = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": line,
    }
    parts = (b'{"alg":"none"}', b'{"sub":"alice","exp":9000000000}')
    token = b".".join((*(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts), b""))
    with (
        caplog.at_level(logging.INFO),
        ottla.Broker(overrides=SECURED | options) as broker,
        connected(broker) as client,
    ):
        shake_hands(client, "OAUTHBEARER")
        answer = authenticate(client, b"n,a=x\nINFO: \x1b[2Jforged,\x01auth=Bearer " + token + b"\x01\x01")
        assert "authorization id" in str(answer.error_message)
        assert client.is_closed_by_peer()
        assert eventually(broker, lambda: "forged" in caplog.text)
    assert all("\n" not in each.getMessage() and "\x1b" not in each.getMessage() for each in caplog.records)


# Faults


def test_a_login_can_be_made_to_fail() -> None:
    with secured() as broker:
        broker.fault(api="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED")
        for expected in (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.NONE):
            with connected(broker) as client:
                assert log_in(client).error_code == expected
                assert expected == ErrorCode.NONE or client.is_closed_by_peer()
        broker.fault(api="SaslHandshake", disconnect="before")
        with connected(broker) as client:
            client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert client.is_closed_by_peer()


# Timeouts


async def test_who_takes_its_time_is_cut_off(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = PlainTransport(ours)
        frames = FrameReader(transport, 1 << 20, RequestMemory(1 << 20), "here", lambda reason: None)
        theirs.sendall(b"\0\0\0")
        began_s = trio.current_time()
        with pytest.raises(HangUpError, match="login timed out after 10 s"):
            await log_in_to(RULES, Closed(), None, Staying(), frames, transport.send, Learning(), Allowance(), Counts())
        assert trio.current_time() - began_s == pytest.approx(BEFORE_S)
        frames.close()


async def test_a_flood_of_what_may_be_asked_for_again_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = PlainTransport(ours)
        frames = FrameReader(transport, 1 << 20, RequestMemory(1 << 20), "here", lambda reason: None)
        theirs.sendall(FROM_THE_FUTURE * 50)
        theirs.shutdown(socket.SHUT_WR)
        before = time_slices.passes()
        with pytest.raises(PeerGoneError):
            await log_in_to(
                RULES, Greeting(), None, Staying(), frames, transport.send, Learning(), Allowance(), Counts()
            )
        assert time_slices.passes() - before >= 50
        frames.close()


FROM_THE_FUTURE = struct.pack(">ihhih", 10, 18, 99, 1, -1)
"""An ApiVersions request in an unknown version."""


RULES: Any = SimpleNamespace(max_receive_bytes=16384, is_limited_in_all=True, failure_delay_ms=1, mechanisms=("PLAIN",))


class Closed:
    """A dispatcher without requests."""

    handlers: Handlers = Handlers()
    node_id = 0
    is_open = True
    login = None

    async def loaded(self, key: int) -> Any:
        raise KeyError(key)

    def context_for(self, client: Any) -> Any:
        return None


async def handle_api_versions(ctx: Any, request: Any) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=())


class Greeting(Closed):
    """A dispatcher that answers it."""

    handlers: Any = MappingProxyType({18: handle_api_versions})


# Sessions


def reauthenticating(lifetime_ms: int = 60_000, **options: str) -> ottla.Broker:
    return secured(connections_max_reauth_ms=str(lifetime_ms), **options)


def test_a_session_ends_by_the_brokers_clock() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        assert log_in(client).session_lifetime_ms == 60_000
        broker.clock.advance(milliseconds=59_000)
        assert client.ask(METADATA).brokers
        broker.clock.advance(milliseconds=1_000)
        client.send(METADATA)
        assert client.is_closed_by_peer()


def test_who_logs_in_again_goes_on() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        for _ in range(3):
            assert log_in(client).session_lifetime_ms == 60_000
            assert client.ask(METADATA).brokers
            broker.clock.advance(milliseconds=70_000)
        client.send(METADATA)
        assert client.is_closed_by_peer()


def test_an_older_client_is_not_told_how_long_its_session_lasts() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        shake_hands(client)
        assert authenticate(client, plain(), version=0).session_lifetime_ms == 0
        broker.clock.advance(milliseconds=60_000)
        client.send(METADATA)
        assert client.is_closed_by_peer()


def test_who_logs_in_again_within_a_second_is_refused_and_stays() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        log_in(client)
        assert shake_hands(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.ask(METADATA).brokers
        broker.clock.advance(milliseconds=1_000)
        assert log_in(client).error_code == ErrorCode.NONE


def test_who_logs_in_again_as_another_is_sent_away() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        answer = log_in(client, plain("bob", "bobs"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert client.is_closed_by_peer()


def test_who_logs_in_again_with_a_wrong_password_is_sent_away() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        answer = log_in(client, b"")
        assert answer.error_message == (
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
        )
        assert client.is_closed_by_peer()


def test_who_logs_in_again_does_not_send_more_than_the_first_time() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        shake_hands(client)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0" * (17 << 10)))
        assert client.is_closed_by_peer()


def test_who_logs_in_again_may_do_so_without_headers() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        send_bare(client, plain())
        assert client.receive_frame() == b""
        for logs_in_with_headers in (False, True, False):
            assert client.ask(METADATA).brokers
            broker.clock.advance(milliseconds=70_000)
            if logs_in_with_headers:
                assert log_in(client).session_lifetime_ms == 60_000
            else:
                send_bare(client, plain())
                assert client.receive_frame() == b""
        assert client.ask(METADATA).brokers
        broker.clock.advance(milliseconds=70_000)
        client.send(METADATA)
        assert client.is_closed_by_peer()


@pytest.mark.parametrize(
    ("token", "mechanism"),
    [
        pytest.param(plain(password="wrong"), "PLAIN", id="wrong password"),
        pytest.param(plain("bob", "bobs"), "PLAIN", id="another user"),
        pytest.param(plain(), "SCRAM-SHA-256", id="another mechanism"),
        pytest.param(b"\0" * 201, "PLAIN", id="a large token"),
    ],
)
def test_who_fails_to_log_in_again_without_headers_has_no_answer(token: bytes, mechanism: str) -> None:
    mechanisms, most_bytes = "PLAIN,SCRAM-SHA-256", "200"
    with (
        reauthenticating(sasl_enabled_mechanisms=mechanisms, sasl_server_max_receive_size=most_bytes) as broker,
        connected(broker) as client,
    ):
        log_in(client)
        send_bare(client, token, mechanism)
        assert client.is_closed_by_peer()


def test_a_node_stops_while_a_client_logs_in_again_without_headers() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        assert shake_hands(client, version=0).error_code == ErrorCode.NONE
        broker.stop()
        assert client.is_closed_by_peer()


def test_nothing_else_is_asked_while_a_client_logs_in_again() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        shake_hands(client)
        assert client.ask(METADATA, 1).brokers == ()
        assert client.is_closed_by_peer()


def test_a_session_ends_with_the_token_that_began_it() -> None:
    import base64
    import json

    handler = (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    )
    options = {"sasl_enabled_mechanisms": "OAUTHBEARER", "sasl_server_callback_handler_class": handler}
    with secured(**options) as broker, connected(broker) as client:
        broker.clock.freeze()
        claims = {"sub": "alice", "exp": broker.clock.now_ms() / 1000 + 50}
        parts = (
            base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
            for each in ({"alg": "none"}, claims)
        )
        token = f"n,,\x01auth=Bearer {'.'.join(parts)}.\x01\x01".encode()
        shake_hands(client, "OAUTHBEARER")
        assert authenticate(client, token).session_lifetime_ms == pytest.approx(50_000, abs=1)
        assert client.ask(METADATA).brokers
        broker.clock.advance(seconds=51)
        client.send(METADATA)
        assert client.is_closed_by_peer()


def test_an_unknown_mechanism_ends_a_session() -> None:
    with reauthenticating() as broker, connected(broker) as client:
        log_in(client)
        client.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        assert client.is_closed_by_peer()


def test_sessions_of_one_listener_may_be_longer_or_without_end() -> None:
    overrides = {
        **SECURED,
        "connections.max.reauth.ms": "5",
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "0",
    }
    with ottla.Broker(overrides=overrides) as broker, connected(broker) as client:
        assert log_in(client).session_lifetime_ms == 0
        broker.clock.advance(hours=1)
        assert client.ask(METADATA).brokers


# Nodes


CONTROLLERS = (
    "# controllers=3000@127.0.0.1:0\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n"
)


async def test_a_controller_that_is_no_node_takes_logins_too(tmp_path: Path) -> None:
    lines = f"listeners=PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN\nsasl.jaas.config={PLAIN_LINE}\n"
    file = parse_server_properties(CONTROLLERS + lines + f"log.dirs={tmp_path}\n")
    async with run_supervisor(static_config(profile="dev", file=file)) as supervisor:
        broker = supervisor.broker
        (port,) = (each.port for each in broker.nodes[0].listeners if each.controller_id == 3000)

        def ask() -> None:
            with RawClient("127.0.0.1", port) as client:
                assert log_in(client).error_code == ErrorCode.NONE

        await trio.to_thread.run_sync(ask)


def test_a_controller_that_cannot_take_logins_ends_the_start_with_a_line() -> None:
    with pytest.raises(
        ConfigError, match=r"Missing configuration listener\.name\.controller\.plain\.sasl\.jaas\.config"
    ):
        static_config(file=parse_server_properties(CONTROLLERS + "sasl.enabled.mechanisms=PLAIN\n"))


async def test_a_listener_that_another_node_alone_has_takes_logins_too(tmp_path: Path) -> None:
    text = (
        "listeners=PLAINTEXT://127.0.0.1:0\n# nodes=2\n# node.1.listeners=INSIDE://127.0.0.1:0\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n"
        "# node.1.listener.security.protocol.map=INSIDE:SASL_PLAINTEXT\n"
        f"sasl.enabled.mechanisms=PLAIN\nsasl.jaas.config={PLAIN_LINE}\n"
    )
    static = static_config(profile="dev", file=parse_server_properties(text), flags={"log.dirs": str(tmp_path)})
    async with run_supervisor(static) as supervisor:
        broker = supervisor.broker

        def ask() -> None:
            with RawClient(*address(broker, 1)) as client:
                assert log_in(client).error_code == ErrorCode.NONE
                assert client.ask(METADATA, 9).brokers
            with RawClient(*address(broker, 1)) as client:
                client.send(METADATA, 9)
                assert client.is_closed_by_peer()
            with RawClient(*address(broker, 0)) as client:
                assert client.ask(METADATA, 9).brokers

        await trio.to_thread.run_sync(ask)


async def test_options_of_a_node_that_is_not_the_first_count_from_the_next_client_on(tmp_path: Path) -> None:
    lines = "# feature.eligible.leader.replicas.version=0\n"  # which would keep an option of all nodes
    lines += f"listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN\nsasl.jaas.config={PLAIN_LINE}\n"
    file = parse_server_properties(lines.replace("sasl.jaas", "listener.name.sasl_plaintext.plain.sasl.jaas"))
    async with run_supervisor(static_config(file=file, nodes=2, overrides={"log.dirs": str(tmp_path)})) as supervisor:
        broker = supervisor.broker
        login = broker.services.logins.login_of(1, "SASL_PLAINTEXT", "SASL_PLAINTEXT")
        assert login is not None
        before = login._sasl
        assert login._sasl is before, "it is made once"
        other = PLAIN_LINE.replace("user_alice", "user_carol")
        configs = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": other}
        await broker.services.config_changes.alter_broker("1", configs)
        assert login._sasl.mechanisms["PLAIN"].users != before.mechanisms["PLAIN"].users
