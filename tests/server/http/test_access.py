"""Access to the admin listener: for this machine, or for a client with the token."""

from __future__ import annotations

import difflib
import http.client
import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.http.access import Access, HttpRefusal, checked_token, parse_address
from ottla.server.http.listener import AdminHttp
from ottla.server.http.table import CALLS
from ottla.storage.topics.config import ConfigError
from support.broker.admin_calls import AdminCalls
from support.broker.serve_process import ServeProcess
from support.commands.command_runs import run_command
from support.noted import each_case

TOKEN = "s3cret-of-this-test"


@pytest.fixture(scope="module")
def guarded() -> Iterator[AdminCalls]:
    with ottla.Broker(admin="0", admin_token=TOKEN) as broker:
        yield AdminCalls.of(broker, TOKEN)


def test_with_a_token_the_listener_may_use_any_address() -> None:
    assert parse_address("0.0.0.0:9099", has_token=True) == ("0.0.0.0", 9099)
    with pytest.raises(ConfigError, match="unless --admin-token-file FILE or OTTLA_ADMIN_TOKEN is set"):
        parse_address("0.0.0.0:9099")


@pytest.mark.parametrize("token", ["", " ", "a b", "a\n", "ü", "x" * 4097])
def test_a_token_must_be_sendable(token: str) -> None:
    with pytest.raises(
        ConfigError, match="token of the admin listener: must be 1 to 4096 visible ASCII characters"
    ) as refused:
        AdminHttp("0", token)
    assert not token.strip() or token not in str(refused.value)
    assert checked_token(TOKEN, "here") == TOKEN


WRONG = ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xff"]


def test_every_call_except_the_probes_needs_the_token(guarded: AdminCalls) -> None:
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
def test_a_wrong_token_is_refused(guarded: AdminCalls, authorization: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert guarded.ask("GET", "/v1/broker", Authorization=authorization) == (
            401,
            {"error": "Authorization: expected the bearer token of this listener"},
        )
    assert TOKEN not in caplog.text


def test_unauthenticated_clients_learn_no_calls_and_cause_no_path_comparisons(
    guarded: AdminCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, compare = [], difflib.get_close_matches

    def counted(word: str, *arguments: Any, **options: Any) -> list[str]:
        compared.append(word)
        return compare(word, *arguments, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    for target in ("/v1/nothing", "/v1/nodes/1/stop", "/nothing", "/" + "x" * 1000):
        assert guarded.ask("GET", target, Authorization="Bearer x")[0] == 401
    assert compared == []
    assert guarded.ask("GET", "/v1/nothing")[0] == 404
    assert compared == ["/v1/nothing"]


def test_a_client_with_the_token_may_use_any_host_name(guarded: AdminCalls) -> None:
    assert guarded.ask("GET", "/v1/broker", Host="broker.example:9099")[0] == 200
    assert guarded.ask("GET", "/v1/broker", Authorization=f"bearer  {TOKEN}")[0] == 200
    assert guarded.ask("GET", "/v1/broker", Origin="http://broker.example")[0] == 403


def test_a_wrong_token_of_any_length_is_compared_as_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append((len(given), len(wanted)))
        return given == wanted

    monkeypatch.setattr("ottla.server.http.access.hmac.compare_digest", compare)
    access = Access(TOKEN, "of the page")
    for authorization in WRONG:
        with pytest.raises(HttpRefusal):
            access.check_token({"authorization": authorization})
    assert compared == [(32, 32)] * 2 * len(WRONG)  # also with the page's token


PAGE = "drawn-for-this-listener"
HERE = {"host": "localhost:9099"}
OURS = HERE | {"origin": "http://localhost:9099"}
FOREIGN: list[dict[str, str]] = [
    HERE | {"origin": "http://localhost:9098"},
    HERE | {"origin": "http://localhost"},
    HERE | {"origin": "http://localhost:9099.example"},
    HERE | {"origin": "null"},
    HERE | {"origin": "http://["},
    HERE | {"origin": "file://localhost:9099"},
    {"origin": "http://localhost:9099"},
    HERE | {"sec-fetch-site": "cross-site"},
    HERE | {"sec-fetch-site": "same-site"},
    OURS | {"sec-fetch-site": "same-site"},
]


@each_case("headers", FOREIGN)
@each_case("token", [None, TOKEN])
def test_cross_site_requests_are_refused_even_with_the_token(headers: dict[str, str], token: str | None) -> None:
    with pytest.raises(HttpRefusal, match="cross-site requests") as refused:
        Access(token, PAGE).check_page(headers | {"authorization": f"Bearer {token or PAGE}"})
    assert refused.value.status == 403


def test_a_page_under_a_foreign_name_needs_a_token() -> None:
    led_here = {"host": "led.example:9099", "origin": "http://led.example:9099", "sec-fetch-site": "same-origin"}
    with pytest.raises(HttpRefusal, match="expected localhost or a loopback address"):
        Access(None, PAGE).check_page(led_here)
    Access(TOKEN, PAGE).check_page(led_here)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_changes_from_our_page_need_its_token(token: str | None) -> None:
    access = Access(token, PAGE)
    access.check_page(OURS)
    with pytest.raises(HttpRefusal):
        access.check_token(OURS)
    with pytest.raises(HttpRefusal):
        access.check_token(OURS | {"authorization": f"Bearer {PAGE}x", "cookie": access.cookie(OURS)})
    access.check_token(OURS | {"authorization": f"Bearer {PAGE}"})


def test_pages_are_readable_after_showing_the_token_once() -> None:
    access, other = Access(TOKEN, PAGE), Access(TOKEN, "of-another-start")
    assert Access(None, PAGE).may_read(HERE)
    assert not access.may_read(HERE)
    assert access.may_read(HERE | {"authorization": f"Bearer {TOKEN}"})
    cookie = access.cookie(HERE).partition(";")[0]
    assert TOKEN not in cookie and PAGE not in cookie
    assert access.may_read(HERE | {"cookie": f"theirs=1; {cookie}"})
    for wrong in (cookie + "x", cookie.replace("9099", "9098"), other.cookie(HERE).partition(";")[0], "\x00=;,", ""):
        assert not access.may_read(HERE | {"cookie": wrong})
    assert not access.may_read({"host": "localhost:9098", "cookie": cookie})  # of another broker on this machine


@pytest.mark.parametrize("theirs", ['{"a": "b"}', "a b=1", "ä=1", "no value", "a,b=1", "=", ""])
def test_odd_cookies_of_other_servers_of_this_host_change_nothing(theirs: str) -> None:
    access = Access(TOKEN, PAGE)
    ours = access.cookie(HERE).partition(";")[0]
    for cookies in (f"{theirs}; {ours}", f"{ours}; {theirs}", f"{ours};{theirs};"):
        assert access.may_read(HERE | {"cookie": cookies})
    assert not access.may_read(HERE | {"cookie": theirs})


def test_a_cookie_allows_reading_but_no_changes(guarded: AdminCalls) -> None:
    def ask(method: str, target: str, **headers: str) -> tuple[int, str, str | None]:
        with closing(http.client.HTTPConnection(guarded.address, timeout=60)) as connection:
            connection.request(method, target, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.getheader("set-cookie")

    assert ask("GET", "/")[0] == 401 and "requires the token" in ask("GET", "/")[1]
    assert ask("GET", "/static/page.js")[0] == 200
    assert ask("POST", "/login", Authorization="Bearer x")[::2] == (401, None)
    status, _, cookie = ask("POST", "/login", Authorization=f"Bearer {TOKEN}", Origin=f"http://{guarded.address}")
    assert status == 204 and cookie is not None and "HttpOnly; SameSite=Strict" in cookie
    shown = cookie.partition(";")[0]
    status, page, _ = ask("GET", "/", Cookie=shown)
    assert status == 200 and "<h1>Overview</h1>" in page and TOKEN not in page
    assert ask("POST", "/v1/crash", Cookie=shown)[0] == 401
    assert ask("GET", "/v1/broker", Cookie=shown)[0] == 401


def test_the_command_reads_the_token_from_a_file_or_the_environment(tmp_path: Path) -> None:
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
    "two lines": ((), {"OTTLA_ADMIN_TOKEN": "a\nb"}, "OTTLA_ADMIN_TOKEN: must be 1 to 4096 visible ASCII characters"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_the_command_refuses_an_invalid_token(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, environment, sentence = REFUSALS[what]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused = run_command(
        "serve", "--data", str(tmp_path), "--listener", "127.0.0.1:0", "--admin", "0.0.0.0:80", *arguments
    )
    assert refused.code == 2 and sentence in refused.err
    assert not list(tmp_path.iterdir())


def test_a_token_without_a_listener_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    refused = run_command("serve", "--data", str(tmp_path / "data"), "--admin-token-file", str(tmp_path / "token"))
    assert refused.code == 2 and "--admin-token-file requires --admin" in refused.err
