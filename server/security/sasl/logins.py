"""Mechanisms of each listener, by the present options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from ....storage.topics.options import ConfigError
from ...config.listeners import OVER_SASL
from ...config.live_config import LiveConfig
from ...runtime.clock import Clock
from ..principal import UnprovenError
from .conversation import Conversation
from .scram_users import ScramUsers

if TYPE_CHECKING:
    from ...config.sasl.mechanisms import MechanismConfig, SaslConfig
    from ...config.sasl.oauth import OauthConfig
    from .jwks import Jwks
    from .passwords import ScramTokens


class Logins:
    """Logins of one broker.

    Args:
        secret: Source of the salts of SCRAM users that do not exist.
    """

    def __init__(self, config: LiveConfig, clock: Clock, secret: bytes) -> None:
        self.scram_users = ScramUsers()
        self.tokens: ScramTokens | None = None
        """Delegation tokens, which log in by SCRAM; None if they are not enabled."""
        self._config = config
        self._clock = clock
        self._secret = secret
        self._threads = trio.CapacityLimiter(1)
        self._jwks: dict[OauthConfig, Jwks] = {}
        self._nursery: trio.Nursery | None = None
        """Nursery of `run`; None unless it runs."""

    def login_of(self, node_id: int, listener: str, security_protocol: str) -> ListenerLogin | None:
        """Return how clients log in at this listener of a node or controller; None: it has no SASL."""
        if security_protocol not in OVER_SASL:
            return None
        login = ListenerLogin(self, self._config, self._clock, node_id, listener)
        _ = login.mechanisms
        return login

    def open(self) -> None:
        """Load the keys that sign tokens. Blocks until they are fetched.

        Raises:
            ConfigError: They cannot be fetched, or the package that checks signatures is not installed.
        """
        for jwks in self._all_keys():
            try:
                import jwt  # noqa: F401
            except ImportError:
                raise ConfigError("OAUTHBEARER with signed tokens needs PyJWT: pip install 'ottla[oauth]'") from None
            jwks.load()
        self._config.watchers.append(self._take_options)

    async def run(self) -> None:
        """Refresh those keys until cancelled."""
        async with trio.open_nursery() as self._nursery:
            for jwks in self._jwks.values():
                self._nursery.start_soon(jwks.run)
            await trio.sleep_forever()

    def _take_options(self) -> None:
        """Load the keys of a mechanism that was enabled, before a client logs in by it.

        Stop refreshing keys that are no longer used.
        """
        used = self._all_keys()
        for config in [config for config, jwks in self._jwks.items() if jwks not in used]:
            self._jwks.pop(config).stop()

    def _all_keys(self) -> list[Jwks]:
        configs = [self._config.node_config(node_id).sasl for node_id in self._config.static.node_ids]
        mechanisms = [
            each for config in configs for sasl in config.values() for each in sasl.mechanisms.values() if each.oauth
        ]
        found = {each.oauth: self._keys_of(each.oauth) for each in mechanisms if each.oauth is not None}
        return [jwks for jwks in found.values() if jwks is not None]

    def _keys_of(self, config: OauthConfig) -> Jwks | None:
        if config.url is None:
            return None
        if config not in self._jwks:
            from .jwks import Jwks

            made = Jwks(config, self._clock)
            # A change of other options must not wait for the server, which may be slow or unreachable.
            for before in [jwks for other, jwks in self._jwks.items() if other.url == config.url]:
                made.begin_with(before)
            self._jwks[config] = made
            if self._nursery is not None:
                self._nursery.start_soon(made.run)
        return self._jwks[config]

    def conversation(self, config: MechanismConfig) -> Conversation:
        """Start a conversation by this mechanism."""
        # Imported here: a broker without SASL does not need them.
        from ...config.sasl.mechanisms import PLAIN

        if config.name == PLAIN:
            from .passwords import PlainConversation

            return PlainConversation(config.users)
        if config.oauth is not None:
            from .oauthbearer import OauthConversation

            return OauthConversation(config.oauth, self._keys_of(config.oauth))
        from .passwords import ScramConversation

        return ScramConversation(config.name, self.scram_users, self.tokens, self._secret, self._threads)


class ListenerLogin:
    """Login settings of one listener, for its connections. Changed options apply from the next client on."""

    def __init__(self, logins: Logins, config: LiveConfig, clock: Clock, node_id: int, listener: str) -> None:
        self.clock = clock
        self._node_id = node_id
        self._of: tuple[int, SaslConfig] | None = None
        """The count of changes, and the SASL options at that count."""
        self._logins = logins
        self._config = config
        self._listener = listener

    @property
    def _sasl(self) -> SaslConfig:
        changes = self._config.changes
        if self._of is None or self._of[0] != changes:
            self._of = changes, self._config.node_config(self._node_id).sasl_at(self._listener)
        return self._of[1]

    @property
    def mechanisms(self) -> Sequence[str]:
        """The offered mechanisms."""
        return tuple(self._sasl.mechanisms)

    @property
    def max_receive_bytes(self) -> int:
        """Maximum bytes of a request before the client has logged in."""
        return self._sasl.max_receive_bytes

    @property
    def is_limited_in_all(self) -> bool:
        """Whether that limit applies to all requests of a login together, including the TLS handshake."""
        return self._sasl.is_limited_in_all

    @property
    def failure_delay_ms(self) -> int:
        """How long the response to a failed login is delayed."""
        return self._config.current.connection_failed_authentication_delay_ms

    def begin(self, mechanism: str) -> Conversation:
        """Start a conversation by one of `mechanisms`."""
        return self._logins.conversation(self._sasl.mechanisms[mechanism])

    def lifetime_ms(self, mechanism: str, expires_ms: int | None) -> int | None:
        """Return the duration of a session that begins now; None: until its client disconnects.

        Args:
            expires_ms: When the credentials expire, in wall time.

        Raises:
            UnprovenError: The mechanism was disabled after the client began to log in.
        """
        config = self._sasl.mechanisms.get(mechanism)
        if config is None:
            raise UnprovenError(f"SASL mechanism {mechanism} is no longer enabled", is_told=True)
        max_ms = config.max_reauth_ms
        limits = [max_ms] if max_ms > 0 else []
        if expires_ms is not None:
            limits.append(expires_ms - self.clock.now_ms())
        return max(0, min(limits)) if limits else None
