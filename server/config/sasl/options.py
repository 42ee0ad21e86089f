"""Broker options of listeners whose clients log in: `sasl.*` and related ones.

As in `config.options.security_options`, which imports this. `sasl.kerberos.*`, `sasl.login.*` and other options for
GSSAPI or for connections between brokers are in `known_options`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....storage.topics.options import Check, OptionType, UpdateMode, option

_BOOLEAN = OptionType.BOOLEAN
_CLASS = OptionType.CLASS
_INT = OptionType.INT
_LIST = OptionType.LIST
_LONG = OptionType.LONG
_PASSWORD = OptionType.PASSWORD
_STRING = OptionType.STRING

_FIXED = UpdateMode.READ_ONLY
_PER_BROKER = UpdateMode.PER_BROKER

OAUTHBEARER = "OAUTHBEARER"
"""The mechanism of clients that log in with a token."""

DEFAULT_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslOptions:
    """Typed values of the SASL options, for listeners without values of their own."""

    connections_max_reauth_ms: int = option(
        _LONG,
        0,
        None,
        "Maximum time between login and re-authentication of a client; 0 or less: no limit. Also for one listener and"
        " mechanism.",
        update=_FIXED,
    )
    principal_builder_class: str = option(
        _CLASS,
        DEFAULT_PRINCIPAL_BUILDER,
        Check("must be the default: Java classes are not supported", lambda name: name == DEFAULT_PRINCIPAL_BUILDER),
        "Class that builds principals; must be the default.",
        update=_PER_BROKER,
    )
    sasl_enabled_mechanisms: tuple[str, ...] = option(
        _LIST, ("GSSAPI",), None, "Enabled SASL mechanisms.", update=_PER_BROKER
    )
    sasl_jaas_config: str | None = option(
        _PASSWORD,
        None,
        None,
        "JAAS login modules with the users of PLAIN; for one listener and mechanism, or for several mechanisms.",
        update=_PER_BROKER,
    )
    sasl_oauthbearer_allow_unverified_audience: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether sasl.oauthbearer.expected.audience may be empty; the audience (aud) of tokens is then not checked.",
        update=_FIXED,
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether sasl.oauthbearer.expected.issuer may be missing; the issuer (iss) of tokens is then not checked.",
        update=_FIXED,
    )
    sasl_oauthbearer_clock_skew_seconds: int = option(
        _INT, 30, None, "Maximum clock difference to the token issuer.", update=_FIXED
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = option(
        _LIST,
        (),
        None,
        "Accepted audiences (aud) of tokens; required unless sasl.oauthbearer.allow.unverified.audience is set.",
        update=_FIXED,
    )
    sasl_oauthbearer_expected_issuer: str | None = option(
        _STRING,
        None,
        None,
        "Accepted issuer (iss) of tokens; required unless sasl.oauthbearer.allow.unverified.issuer is set.",
        update=_FIXED,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(
        _LONG, 3_600_000, None, "Interval at which the key set is loaded again.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = option(
        _LONG, 10_000, None, "Maximum delay after the key set could not be loaded.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = option(
        _LONG, 100, None, "Initial delay after the key set could not be loaded; it doubles each time.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(
        _STRING, None, None, "Location of the JSON Web Key Set: file:PATH, http:// or https://.", update=_FIXED
    )
    sasl_oauthbearer_jwt_validator_class: str = option(
        _CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        None,
        "Class that validates tokens: DefaultJwtValidator or BrokerJwtValidator, which are equivalent here.",
        update=_FIXED,
    )
    sasl_oauthbearer_scope_claim_name: str = option(
        _STRING, "scope", None, "Claim of a token that contains its scopes.", update=_FIXED
    )
    sasl_oauthbearer_sub_claim_name: str = option(
        _STRING, "sub", None, "Claim of a token that contains the user name.", update=_FIXED
    )
    sasl_server_callback_handler_class: str | None = option(
        _CLASS, None, None, "Class that validates logins, for one listener and mechanism.", update=_FIXED
    )
    sasl_server_max_receive_size: int = option(
        _INT, 524_288, None, "Maximum size of a request during login; by default 16 KiB.", update=_FIXED
    )
