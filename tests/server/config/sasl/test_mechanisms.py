"""The meaning of the SASL options for a listener, and those that a start refuses, in one line."""

from __future__ import annotations

import pytest

from ottla.server.config.broker_config import BrokerConfig
from ottla.server.config.static_config import static_config
from ottla.storage.topics.config import ConfigError
from support.noted import each_case

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
SASL = {"listeners": "IN://:1,OUT://:2", "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT"}
JAAS = "listener.name.out.plain.sasl.jaas.config"
MECHANISMS = "sasl.enabled.mechanisms"
JAAS_OAUTH = "listener.name.out.oauthbearer.sasl.jaas.config"
UNSECURED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredValidatorRequiredScope=write;"


def config(**texts: str) -> BrokerConfig:
    return BrokerConfig.from_texts(SASL | {MECHANISMS: "PLAIN", JAAS: f'{PLAIN} user_a="b";'} | texts)


def test_only_sasl_listeners_have_mechanisms() -> None:
    sasl = config().sasl
    assert list(sasl) == ["OUT"]
    assert list(sasl["OUT"].mechanisms) == ["PLAIN"]
    assert sasl["OUT"].mechanisms["PLAIN"].users == {"a": "b"}
    assert BrokerConfig.from_texts({}).sasl == {}


@pytest.mark.parametrize("name", [JAAS, "listener.name.out.sasl.jaas.config", "sasl.jaas.config"])
def test_a_jaas_line_may_apply_to_a_mechanism_a_listener_or_all(name: str) -> None:
    texts = SASL | {MECHANISMS: "PLAIN", name: f'{PLAIN} username="x" password="y" user_a="b" user_c="d e";'}
    assert BrokerConfig.from_texts(texts).sasl["OUT"].mechanisms["PLAIN"].users == {"a": "b", "c": "d e"}


def test_one_line_may_have_the_modules_of_several_mechanisms() -> None:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    assert config(**{JAAS: f'{scram} {PLAIN} user_a="z";'}).sasl["OUT"].mechanisms["PLAIN"].users == {"a": "z"}


def test_session_lifetimes_of_the_mechanism_precede_general_ones() -> None:
    name = "connections.max.reauth.ms"
    for set_, expected in (
        ({}, 0),
        ({name: "1"}, 1),
        ({name: "1", f"listener.name.out.{name}": "2"}, 2),
        ({name: "1", f"listener.name.out.{name}": "2", f"listener.name.out.plain.{name}": "3"}, 3),
    ):
        assert config(**set_).sasl["OUT"].mechanisms["PLAIN"].max_reauth_ms == expected


EXPECTED_AUDIENCE, EXPECTED_ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
ANY_AUDIENCE, ANY_ISSUER = "sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"
KEYS = {MECHANISMS: "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "file:/keys"}

REFUSED = {
    "GSSAPI is not supported": (
        {MECHANISMS: "PLAIN,GSSAPI"},
        r"GSSAPI for .*: GSSAPI \(Kerberos\) is not supported; set",
    ),
    "an unknown mechanism": ({MECHANISMS: "DIGEST-MD5"}, "DIGEST-MD5 for .*listener.name.out.sasl.enabled.mechanisms"),
    "nearly a mechanism": ({MECHANISMS: "plain"}, r"must be one of: .*; did you mean PLAIN\?"),
    "no mechanism": ({f"listener.name.out.{MECHANISMS}": ""}, "must contain a mechanism"),
    "a malformed line": ({JAAS: f"{PLAIN} user_a=hunter2"}, r"\[hidden\] for .*plain.sasl.jaas.config: must end the"),
    "another module": (
        {JAAS: "org.apache.kafka.common.security.scram.ScramLoginModule required;"},
        "must contain an entry for org.apache.kafka.common.security.plain.PlainLoginModule",
    ),
    "a class of one's own": (
        {JAAS: "com.example.OwnLoginModule required;"},
        "com.example.OwnLoginModule is not a known login module",
    ),
    "a password in the place of the line": (
        {JAAS: "s3cr3t optional;"},
        ": the class of entry 1 is not a known login module",
    ),
    "a callback handler": (
        {"listener.name.out.plain.sasl.server.callback.handler.class": "com.example.Checks"},
        "com.example.Checks for .*: Java classes are not supported; known handlers of PLAIN: .*PlainServerCallbackHandler",
    ),
    "tokens without keys": (
        {MECHANISMS: "OAUTHBEARER"},
        r"Missing configuration listener.name.out.oauthbearer.sasl.oauthbearer.jwks.endpoint.url: location of the JSON Web Key Set",
    ),
    "keys by another way": (
        {MECHANISMS: "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "ftp://keys"},
        "ftp://keys for .*: must be file:PATH, http",
    ),
    "keys for tokens without signature": (
        {MECHANISMS: "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "file:/keys", JAAS_OAUTH: UNSECURED},
        "unsigned tokens do not need keys",
    ),
    "an option of tokens that there is not": (
        {MECHANISMS: "OAUTHBEARER", JAAS_OAUTH: UNSECURED.replace("Required", "Needed")},
        "unknown option unsecuredValidatorNeededScope",
    ),
    "a validator": (
        {
            MECHANISMS: "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": "file:/keys",
            "sasl.oauthbearer.jwt.validator.class": "com.example.Validator",
        },
        "com.example.Validator for .*: Java classes are not supported; must be one of",
    ),
    "tokens of any audience": (
        KEYS | {EXPECTED_ISSUER: "i", ANY_ISSUER: "true"},
        r"Missing configuration listener.name.out.oauthbearer.sasl.oauthbearer.expected.audience: .* set .*unverified.audience",
    ),
    "tokens of any issuer": (
        KEYS | {EXPECTED_AUDIENCE: "a", EXPECTED_ISSUER: " "},
        "expected.issuer: .*set sasl.oauthbearer.allow.unverified.issuer to true",
    ),
    "a principal builder": ({"principal.builder.class": "com.example.Builder"}, "must be the default"),
}


@each_case("texts, told", REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_options_are_refused(texts: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        config(**texts)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


@each_case(
    "texts, audience, issuer",
    [
        ({EXPECTED_AUDIENCE: "a, b", EXPECTED_ISSUER: "i"}, ("a", "b"), "i"),
        ({ANY_AUDIENCE: "true", EXPECTED_ISSUER: "i"}, (), "i"),
        ({EXPECTED_AUDIENCE: "a", ANY_ISSUER: "true", EXPECTED_ISSUER: ""}, ("a",), None),
        ({EXPECTED_AUDIENCE: "a", EXPECTED_ISSUER: "i", ANY_AUDIENCE: "true", ANY_ISSUER: "true"}, ("a",), "i"),
        (
            {f"listener.name.out.{ANY_AUDIENCE}": "true", f"listener.name.out.oauthbearer.{ANY_ISSUER}": "true"},
            (),
            None,
        ),
    ],
)
def test_audience_and_issuer_of_tokens_are_named_or_may_be_any(
    texts: dict[str, str], audience: tuple[str, ...], issuer: str | None
) -> None:
    oauth = config(**KEYS, **texts).sasl["OUT"].mechanisms["OAUTHBEARER"].oauth
    assert oauth is not None
    assert (oauth.audience, oauth.issuer) == (audience, issuer)


def test_without_any_option_the_error_names_the_required_one() -> None:
    with pytest.raises(ConfigError, match=r"GSSAPI .* is not supported; set sasl.enabled.mechanisms to any of PLAIN"):
        BrokerConfig.from_texts(SASL)
    with pytest.raises(ConfigError, match=rf"Missing configuration {JAAS}: PLAIN has no users; set it to .* user_NAME"):
        BrokerConfig.from_texts(SASL | {MECHANISMS: "PLAIN"})


def test_unsigned_tokens_are_enabled_by_class_or_options() -> None:
    by_class = {
        MECHANISMS: "OAUTHBEARER",
        "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
        ".OAuthBearerUnsecuredValidatorCallbackHandler",
    }
    oauth = config(**by_class).sasl["OUT"].mechanisms["OAUTHBEARER"].oauth
    assert oauth is not None and oauth.url is None and oauth.scopes == ()
    oauth = config(**{MECHANISMS: "OAUTHBEARER", JAAS_OAUTH: UNSECURED}).sasl["OUT"].mechanisms["OAUTHBEARER"].oauth
    assert oauth is not None and oauth.url is None and oauth.scopes == ("write",)


def test_a_known_callback_handler_is_accepted() -> None:
    name = "listener.name.out.plain.sasl.server.callback.handler.class"
    assert config(**{name: "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"}).sasl


def test_a_change_is_refused_like_a_start() -> None:
    started = config()
    with pytest.raises(ConfigError, match="must end the options"):
        started.with_dynamic({}, {JAAS: f"{PLAIN} user_a=b"})
    changed = started.with_dynamic({}, {JAAS: f'{PLAIN} user_a="c";'})
    assert changed.sasl["OUT"].mechanisms["PLAIN"].users == {"a": "c"}


def test_no_repr_shows_a_secret() -> None:
    texts = SASL | {MECHANISMS: "PLAIN", JAAS: f'{PLAIN} user_a="hunter2";', "sasl.jaas.config": "hunter2"}
    assert "hunter2" not in repr(BrokerConfig.from_texts(texts)) + repr(static_config(overrides=texts))


def test_effective_options_cause_no_warning() -> None:
    warnings = static_config(overrides=SASL | {MECHANISMS: "PLAIN", JAAS: f'{PLAIN} user_a="b";'}).warnings
    assert not [line for line in warnings if "sasl" in line]
