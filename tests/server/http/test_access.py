"""Who may ask the admin listener: this machine, or whoever knows the token."""

from __future__ import annotations

import http.client
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server.http.access import Access, Refused, checked_token, parse_address
from ottla.server.http.listener import AdminHttp
from ottla.server.http.table import CALLS
from ottla.storage.topics.config import ConfigError
from support.broker.admin_calls import AdminCalls
from support.broker.serve_process import ServeProcess, run

TOKEN = "s3cret-of-this-test"


@pytest.fixture(scope="module")
def guarded() -> Iterator[AdminCalls]:
    with ottla.Broker(admin="0", admin_token=TOKEN) as broker:
        yield AdminCalls.of(broker, TOKEN)


def test_with_a_token_it_may_listen_anywhere() -> None:
    assert parse_address("0.0.0.0:9099", has_token=True) == ("0.0.0.0", 9099)
    with pytest.raises(ConfigError, match="give --admin-token-file FILE or OTTLA_ADMIN_TOKEN"):
        parse_address("0.0.0.0:9099")


@pytest.mark.parametrize("token", ["", " ", "a b", "a\n", "ü", "x" * 4097])
def test_a_token_can_be_sent(token: str) -> None:
    with pytest.raises(ConfigError, match="the token of the admin listener: must be 1 to 4096 characters") as refused:
        AdminHttp("0", token)
    assert not token.strip() or token not in str(refused.value)
    assert checked_token(TOKEN, "here") == TOKEN


WRONG = ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xff"]


def test_every_call_but_the_probes_wants_the_token(guarded: AdminCalls) -> None:
    for call in CALLS:
        target = call.path.replace("{", "").replace("}", "")
        connection = http.client.HTTPConnection(guarded.address, timeout=60)
        connection.request(call.method, target, headers={"Authorization": "Bearer wrong"})
        response = connection.getresponse()
        response.read()
        assert (response.status == 401) != call.without_token, call.path
        assert response.status != 401 or response.getheader("www-authenticate") == "Bearer"
        connection.close()


@pytest.mark.parametrize("authorization", WRONG)
def test_what_is_not_the_token_is_refused(
    guarded: AdminCalls, authorization: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert guarded.ask("GET", "/v1/broker", Authorization=authorization) == (
            401,
            {"error": "Authorization: expected Bearer and the token of this listener"},
        )
    assert TOKEN not in caplog.text


def test_strangers_are_told_nothing_of_the_calls(guarded: AdminCalls) -> None:
    for target in ("/v1/nothing", "/v1/nodes/1/stop", "/"):
        assert guarded.ask("GET", target, Authorization="Bearer x")[0] == 401
    assert guarded.ask("GET", "/v1/nothing")[0] == 404


def test_who_knows_the_token_may_call_the_machine_what_he_likes(guarded: AdminCalls) -> None:
    assert guarded.ask("GET", "/v1/broker", Host="broker.example:9099")[0] == 200
    assert guarded.ask("GET", "/v1/broker", Authorization=f"bearer  {TOKEN}")[0] == 200
    assert guarded.ask("GET", "/v1/broker", Origin="http://broker.example")[0] == 403


def test_a_wrong_token_of_any_length_is_compared_as_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append((len(given), len(wanted)))
        return given == wanted

    monkeypatch.setattr("ottla.server.http.access.hmac.compare_digest", compare)
    access = Access(TOKEN)
    for authorization in WRONG:
        with pytest.raises(Refused):
            access.check_token({"authorization": authorization})
    assert compared == [(32, 32)] * len(WRONG)


def test_the_command_takes_the_token_from_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    arguments = ("--data", tmp_path / "data", "--listener", "127.0.0.1:0", "--admin", "0.0.0.0:0")
    with ServeProcess(*arguments, "--admin-token-file", tmp_path / "token") as server:
        server.stop()
    (line,) = [line for line in server.stderr.splitlines() if "ottla.admin" in line]
    assert "admin HTTP listener on 0.0.0.0:" in line and TOKEN not in server.stderr


REFUSALS = {
    "none": ((), {}, "must be a loopback address"),
    "no file": (("--admin-token-file", "nowhere"), {}, "cannot read nowhere: No such file or directory"),
    "an empty file": (("--admin-token-file", os.devnull), {}, f"--admin-token-file {os.devnull}: must be 1 to 4096"),
    "two lines": ((), {"OTTLA_ADMIN_TOKEN": "a\nb"}, "OTTLA_ADMIN_TOKEN: must be 1 to 4096 characters"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_the_command_refuses_what_is_no_token(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, environment, sentence = REFUSALS[what]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused = run("serve", "--data", tmp_path, "--listener", "127.0.0.1:0", "--admin", "0.0.0.0:80", *arguments)
    assert refused.returncode == 2 and sentence in refused.stderr
    assert not list(tmp_path.iterdir())


def test_a_token_without_a_listener_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    refused = run("serve", "--data", tmp_path / "data", "--admin-token-file", tmp_path / "token")
    assert refused.returncode == 2 and "--admin-token-file is for the listener of --admin" in refused.stderr
