"""Access to the registry: by the rules of the admin listener."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator

import pytest

import ottla
from ottla.server.http.registry_listener import RegistryHttp
from ottla.storage.topics.config import ConfigError
from support.broker.registry_calls import RegistryCalls
from support.noted import each_case

TOKEN = "s3cret-of-this-test"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RegistryCalls]:
    with ottla.Broker(schema_registry=True, admin_token=TOKEN) as broker:
        yield RegistryCalls.of(broker)


@pytest.fixture(scope="module")
def open_to_this_machine() -> Iterator[RegistryCalls]:
    with ottla.Broker(schema_registry=True) as broker:
        yield RegistryCalls.of(broker)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@each_case(
    "authorization, status",
    [
        (f"Bearer {TOKEN}", 200),
        (basic(f"anybody:{TOKEN}"), 200),
        (basic(f":{TOKEN}"), 200),
        ("", 401),
        ("Basic", 401),
        ("Basic =", 401),
        ("Basic \xff", 401),
        (basic(TOKEN), 401),
        (basic(f"{TOKEN}:"), 401),
        (basic(f"anybody:{TOKEN}x"), 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer x", 401),
    ],
)
def test_the_token_is_a_bearer_token_or_a_password(authorization: str, status: int, guarded: RegistryCalls) -> None:
    found, answer = guarded.ask("GET", "/subjects", Authorization=authorization)
    assert found == status
    assert status == 200 or answer["error_code"] == 401


def test_strangers_learn_no_calls(guarded: RegistryCalls) -> None:
    assert guarded.ask("GET", "/nothing")[0] == 401
    assert guarded.ask("GET", "/nothing", Authorization=f"Bearer {TOKEN}")[0] == 404


@each_case(
    "headers, status",
    [
        ({}, 200),
        ({"Host": "127.0.0.1:8081"}, 200),
        ({"Host": "example.com"}, 403),
        ({"Origin": "http://example.com"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_use_it(
    headers: dict[str, str], status: int, open_to_this_machine: RegistryCalls
) -> None:
    assert open_to_this_machine.ask("GET", "/subjects", **headers)[0] == status


@pytest.mark.parametrize("address", ["0.0.0.0:8081", "x", "1.2.3.4:99999"])
def test_an_address_that_is_not_of_this_machine_needs_a_token(address: str) -> None:
    with pytest.raises(ConfigError, match="--schema-registry"):
        RegistryHttp(address)


def test_a_registry_without_a_token_is_reported_if_it_bypasses_logins(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), ottla.Broker(schema_registry=True, users={"alice": "secret"}):
        pass
    (line,) = [line for line in caplog.messages if "bypasses" in line]
    assert line.startswith("the schema registry at localhost:") and "bypasses logins" in line
