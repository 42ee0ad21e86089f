"""The broker options of listeners whose clients log in: `sasl.*`, and what comes with it.

As in `config.options.security_options`, which stands on this. `sasl.kerberos.*`, `sasl.login.*` and what else is for GSSAPI, or for
connections from one broker to another, is among the known ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....storage.topics.options import Check, OptionType, UpdateMode, option

_CLASS = OptionType.CLASS
_INT = OptionType.INT
_LIST = OptionType.LIST
_LONG = OptionType.LONG
_PASSWORD = OptionType.PASSWORD
_STRING = OptionType.STRING

_FIXED = UpdateMode.READ_ONLY
_PER_BROKER = UpdateMode.PER_BROKER

OAUTHBEARER = "OAUTHBEARER"
"""The mechanism by which whoever has a token logs in."""

DEFAULT_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslOptions:
    """Typed values of those options, as they are for listeners without values of their own."""

    connections_max_reauth_ms: int = option(
        _LONG,
        0,
        None,
        "How long a client may stay after it has logged in before it does so again; 0 or less: as long as it likes."
        " Also for one listener and mechanism.",
        update=_FIXED,
    )
    principal_builder_class: str = option(
        _CLASS,
        DEFAULT_PRINCIPAL_BUILDER,
        Check("must be the default: Java classes are not supported", lambda name: name == DEFAULT_PRINCIPAL_BUILDER),
        "Who turns what a client has proved into a principal; must be the default.",
        update=_PER_BROKER,
    )
    sasl_enabled_mechanisms: tuple[str, ...] = option(
        _LIST, ("GSSAPI",), None, "SASL mechanisms that clients may log in with.", update=_PER_BROKER
    )
    sasl_jaas_config: str | None = option(
        _PASSWORD,
        None,
        None,
        "Login modules of JAAS with the users of PLAIN; for one listener and mechanism, or for several of them.",
        update=_PER_BROKER,
    )
    sasl_oauthbearer_clock_skew_seconds: int = option(
        _INT, 30, None, "How far clocks of those who issue tokens may be off.", update=_FIXED
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = option(
        _LIST, (), None, "Of which a token must name one as its audience; empty: it does not matter.", update=_FIXED
    )
    sasl_oauthbearer_expected_issuer: str | None = option(
        _STRING, None, None, "Who must have issued a token.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(
        _LONG, 3_600_000, None, "After so long the keys that sign tokens are fetched anew.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = option(
        _LONG, 10_000, None, "Longest wait after keys could not be fetched.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = option(
        _LONG, 100, None, "First wait after keys could not be fetched; it doubles.", update=_FIXED
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(
        _STRING, None, None, "Where the keys are that sign tokens: file:PATH, http:// or https://.", update=_FIXED
    )
    sasl_oauthbearer_jwt_validator_class: str = option(
        _CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        None,
        "Who checks tokens; DefaultJwtValidator or BrokerJwtValidator, which are one here.",
        update=_FIXED,
    )
    sasl_oauthbearer_scope_claim_name: str = option(
        _STRING, "scope", None, "The claim of a token that has its scopes.", update=_FIXED
    )
    sasl_oauthbearer_sub_claim_name: str = option(
        _STRING, "sub", None, "The claim of a token that names the user.", update=_FIXED
    )
    sasl_server_callback_handler_class: str | None = option(
        _CLASS, None, None, "Who checks what clients send, for one listener and mechanism.", update=_FIXED
    )
    sasl_server_max_receive_size: int = option(
        _INT, 524_288, None, "Largest request of a client that logs in; unless it is set, 16 KiB.", update=_FIXED
    )
