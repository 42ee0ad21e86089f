"""SASL options of one listener.

Used by the configuration, so that unsupported settings are refused before anything is opened, and a change before it is
written; and by `security.sasl`, which authenticates clients.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ....protocol.scram import HASHES
from ....storage.topics.options import ConfigError, Value
from .jaas import LoginModule, parse_jaas, shown_class
from .oauth import HANDLERS, OauthConfig, oauth_of
from .options import OAUTHBEARER

PLAIN = "PLAIN"
GSSAPI = "GSSAPI"

_PACKAGE = "org.apache.kafka.common.security."
PLAIN_MODULE = f"{_PACKAGE}plain.PlainLoginModule"
SCRAM_MODULE = f"{_PACKAGE}scram.ScramLoginModule"
OAUTH_MODULE = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"
_MODULES = {
    PLAIN: PLAIN_MODULE,
    **dict.fromkeys(HASHES, SCRAM_MODULE),
    OAUTHBEARER: OAUTH_MODULE,
}
"""The offered mechanisms, each with its login module."""
_HANDLERS: dict[str, tuple[str, ...]] = {
    PLAIN: (f"{_PACKAGE}plain.internals.PlainServerCallbackHandler",),
    **dict.fromkeys(HASHES, (f"{_PACKAGE}scram.internals.ScramServerCallbackHandler",)),
    OAUTHBEARER: HANDLERS,
}
"""Classes that `sasl.server.callback.handler.class` may name: Ottla does what they do."""
_USER = "user_"

BEFORE_LOGIN_BYTES = 16 << 10
"""Largest request of a client that has not logged in, unless the option is set."""

ListenerValue = Callable[[str, str, str], Value]
"""Type of `BrokerConfig.listener_value`: (listener, option, mechanism) -> value."""


@dataclass(frozen=True, slots=True)
class MechanismConfig:
    """One mechanism of one listener."""

    name: str
    max_reauth_ms: int
    """Duration of a session; 0 or less: until its client disconnects."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the login module."""
    oauth: OauthConfig | None = None
    """OAUTHBEARER's settings; None for other mechanisms."""

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, for PLAIN."""
        return {key.removeprefix(_USER): value for key, value in self.options.items() if key.startswith(_USER)}


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """SASL configuration of one listener."""

    mechanisms: Mapping[str, MechanismConfig]
    max_receive_bytes: int
    is_limited_in_all: bool
    """Whether all requests of a login together have the same limit; true unless the option is set."""


def sasl_of(listener: str, value: ListenerValue, is_set: Callable[[str, str], bool]) -> SaslConfig:
    """Return the SASL configuration of one listener.

    Raises:
        ConfigError: A mechanism that is not offered, a malformed line of JAAS, an unknown class. Names no secret.
    """
    name = "sasl.enabled.mechanisms"
    enabled = value(listener, name, "")
    assert isinstance(enabled, tuple)
    if not enabled:
        raise ConfigError(
            f"Invalid value for configuration {_option_name(listener, name)}: must contain a mechanism, e.g. PLAIN"
        )
    for mechanism in enabled:
        if mechanism not in _MODULES:
            raise ConfigError(_not_offered(listener, mechanism))
    size = "sasl.server.max.receive.size"
    receive_bytes = value(listener, size, "")
    assert isinstance(receive_bytes, int)
    is_told = is_set(listener, size)
    return SaslConfig(
        {mechanism: _mechanism(listener, mechanism, value) for mechanism in enabled},
        receive_bytes if is_told else BEFORE_LOGIN_BYTES,
        is_limited_in_all=not is_told,
    )


def _not_offered(listener: str, mechanism: str) -> str:
    offered = ", ".join(_MODULES)
    why = f"must be one of: {offered}"
    if mechanism == GSSAPI:
        why = f"GSSAPI (Kerberos) is not supported; set sasl.enabled.mechanisms to any of {offered}"
    elif near := difflib.get_close_matches(mechanism.upper(), _MODULES, 1):
        why += f"; did you mean {near[0]}?"
    return f"Invalid value {mechanism} for configuration {_option_name(listener, 'sasl.enabled.mechanisms')}: {why}"


def _mechanism(listener: str, mechanism: str, value: ListenerValue) -> MechanismConfig:
    handler = value(listener, name := "sasl.server.callback.handler.class", mechanism)
    if handler is not None and handler not in _HANDLERS[mechanism]:
        raise ConfigError(
            f"Invalid value {handler} for configuration {_option_name(listener, name, mechanism)}: Java classes are not"
            f" supported; known handlers of {mechanism}: {', '.join(_HANDLERS[mechanism]) or 'none'}"
        )
    max_reauth_ms = value(listener, "connections.max.reauth.ms", mechanism)
    assert isinstance(max_reauth_ms, int)
    options, oauth = _jaas_options(listener, mechanism, value), None
    if mechanism == OAUTHBEARER:
        assert handler is None or isinstance(handler, str)
        prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}."
        oauth = oauth_of(prefix, lambda name: value(listener, name, mechanism), options, handler)
    return MechanismConfig(mechanism, max_reauth_ms, options, oauth)


def _jaas_options(listener: str, mechanism: str, value: ListenerValue) -> Mapping[str, str]:
    text = value(listener, name := "sasl.jaas.config", mechanism)
    wanted, shown = _MODULES[mechanism], _option_name(listener, name, mechanism)
    if text is None:
        if mechanism == PLAIN:
            raise ConfigError(
                f'Missing configuration {shown}: PLAIN has no users; set it to {wanted} required user_NAME="PASSWORD";'
            )
        return {}
    try:
        modules = parse_jaas(str(text))
    except ValueError as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {shown}: {error}") from None
    for number, module in enumerate(modules, 1):
        if module.name not in _KNOWN_MODULES:
            # After a password without quotes it may be the rest of the password.
            told = shown_class(module.name, number)
            raise ConfigError(
                f"Invalid value [hidden] for configuration {shown}: {told} is not a known login module; expected e.g. {wanted}"
            )
    found = _module_for(wanted, modules)
    if found is None and mechanism == PLAIN:
        raise ConfigError(f"Invalid value [hidden] for configuration {shown}: must contain an entry for {wanted}")
    return {} if found is None else found.options


def _module_for(wanted: str, modules: Iterable[LoginModule]) -> LoginModule | None:
    return next((module for module in modules if module.name == wanted), None)


def _option_name(listener: str, name: str, mechanism: str = "") -> str:
    """Return the option's full name, as it would be written for this listener alone."""
    infix = f"{mechanism.lower()}." if mechanism else ""
    return f"listener.name.{listener.lower()}.{infix}{name}"


_KNOWN_MODULES = frozenset(_MODULES.values())
