"""How clients log in at each listener, as the options say at this moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from ....storage.topics.options import ConfigError
from ...config.broker_config import BrokerConfig
from ...config.listeners import OVER_SASL
from ...config.live_config import LiveConfig
from ...config.sasl.mechanisms import PLAIN, MechanismConfig, SaslConfig
from ...config.sasl.oauth import OauthConfig
from ...runtime.clock import Clock
from .conversation import Conversation
from .scram_users import ScramUsers

if TYPE_CHECKING:
    from .jwks import Jwks
    from .scram import Tokens


class Logins:
    """Those of one broker.

    Args:
        secret: From it, the salts of SCRAM users that are not there are made.
    """

    def __init__(self, config: LiveConfig, clock: Clock, secret: bytes) -> None:
        self.scram_users = ScramUsers()
        self.tokens: Tokens | None = None
        """Delegation tokens, which log in by SCRAM; None where they are not enabled."""
        self._config = config
        self._clock = clock
        self._secret = secret
        self._threads = trio.CapacityLimiter(1)
        self._jwks: dict[OauthConfig, Jwks] = {}

    def of(self, node_id: int, listener: str, security_protocol: str) -> ListenerLogin | None:
        """How clients log in at a node's listener of this name, or a controller's; None: they do not."""
        if security_protocol not in OVER_SASL:
            return None
        login = ListenerLogin(self, self._config, self._clock, node_id, listener)
        _ = login.mechanisms
        return login

    def open(self) -> None:
        """Read the keys that sign tokens, where they are in files. Blocks.

        Raises:
            ConfigError: A file cannot be read, or what checks signatures is not installed.
        """
        configs = [self._config.of(node_id).sasl for node_id in self._config.static.node_ids]
        for sasl in (each for config in configs for each in config.values()):
            for mechanism in sasl.mechanisms.values():
                if mechanism.oauth is not None and (jwks := self._keys_of(mechanism.oauth)) is not None:
                    try:
                        import jwt  # noqa: F401
                    except ImportError:
                        raise ConfigError(
                            "OAUTHBEARER with signed tokens needs PyJWT: pip install 'ottla[oauth]'"
                        ) from None
                    jwks.load()

    def _keys_of(self, config: OauthConfig) -> Jwks | None:
        if config.url is None:
            return None
        if config not in self._jwks:
            from .jwks import Jwks

            self._jwks[config] = Jwks(config, self._clock)
        return self._jwks[config]

    def conversation(self, config: MechanismConfig) -> Conversation:
        """A new one by this mechanism."""
        # No broker without SASL shall wait for these.
        if config.name == PLAIN:
            from .plain import PlainConversation

            return PlainConversation(config.users)
        if config.oauth is not None:
            from .oauthbearer import OauthConversation

            return OauthConversation(config.oauth, self._keys_of(config.oauth))
        from .scram import ScramConversation

        return ScramConversation(config.name, self.scram_users, self.tokens, self._secret, self._threads)


class ListenerLogin:
    """What a connection asks while its client logs in. Options that change count from the next client on."""

    def __init__(self, logins: Logins, config: LiveConfig, clock: Clock, node_id: int, listener: str) -> None:
        self.clock = clock
        self._node_id = node_id
        self._of: tuple[BrokerConfig, SaslConfig] | None = None
        """What the present configuration says, nodes of which may have listeners of their own."""
        self._logins = logins
        self._config = config
        self._listener = listener

    @property
    def _sasl(self) -> SaslConfig:
        current = self._config.current
        if self._of is None or self._of[0] is not current:
            self._of = current, self._config.of(self._node_id).sasl_at(self._listener)
        return self._of[1]

    @property
    def mechanisms(self) -> Sequence[str]:
        """Those that are offered."""
        return tuple(self._sasl.mechanisms)

    @property
    def max_receive_bytes(self) -> int:
        """Of a request before the client has logged in."""
        return self._sasl.max_receive_bytes

    @property
    def failure_delay_ms(self) -> int:
        """How long a client that failed waits for its answer."""
        return self._config.current.connection_failed_authentication_delay_ms

    def begin(self, mechanism: str) -> Conversation:
        """A conversation by one of `mechanisms`."""
        return self._logins.conversation(self._sasl.mechanisms[mechanism])

    def lifetime_ms(self, mechanism: str, expires_ms: int | None) -> int | None:
        """How long a session lasts that begins now; None: until its client leaves.

        Args:
            expires_ms: When the credentials expire, in wall time.
        """
        max_ms = self._sasl.mechanisms[mechanism].max_reauth_ms
        limits = [max_ms] if max_ms > 0 else []
        if expires_ms is not None:
            limits.append(expires_ms - self.clock.now_ms())
        return max(0, min(limits)) if limits else None
