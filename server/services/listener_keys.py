"""Keys and certificates of all TLS listeners: loaded at the start, and again when options or files change.

A change never ends a connection: open ones keep the keys that they began with. Invalid keys change nothing: a change of options
is refused, a change of files is reported in one line, and tried again with the next change of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.options import ConfigError
from ..cluster.nodes import Node
from ..config.broker_config import BrokerConfig
from ..config.listeners import OVER_SASL, OVER_TLS
from ..config.live_config import LiveConfig
from ..network.listener import Listener
from ..runtime.threads import Work, in_thread

if TYPE_CHECKING:
    from ..security.tls.contexts import TlsContext
    from ..security.tls.settings import TlsSettings
    from ..security.tls.stores import Stamp

log = logging.getLogger("ottla.tls")

LOOK_EVERY_S = 5.0
"""Interval of the checks for changed files."""
_FILES = "files of listeners"


class _Secured(NamedTuple):
    node_id: int
    listener: Listener


Prepared = Sequence[tuple[Listener, "TlsContext"]]


class ListenerKeys:
    """Keys of one broker's listeners."""

    def __init__(self, nodes: Iterable[Node], live_config: LiveConfig) -> None:
        self._live_config = live_config
        self._secured = [
            _Secured(node.node_id, listener)
            for node in nodes
            for listener in node.listeners
            if listener.security_protocol in OVER_TLS
        ]
        self._refused: dict[TlsSettings, dict[str, Stamp]] = {}
        """Stamps of files that could not be used."""

    def check(self) -> None:
        """Load all keys of the static configuration, and keep none: for a first start, without stored options. Blocks.

        Raises:
            ConfigError: See `open`.
        """
        if not self._secured:
            return
        make = _ContextMaking()
        for node_id, listener in self._secured:
            make(self._live_config.static.node(node_id), listener)

    def open(self) -> None:
        """Load all keys. Blocks.

        Raises:
            ConfigError: A listener's keys cannot be loaded; one line.
        """
        if not self._secured:
            return
        from ..security.tls.contexts import ListenerTls

        make = _ContextMaking()
        for node_id, listener in self._secured:
            made = self._first(make, node_id, listener)
            for line in made.settings.warnings:
                log.warning("%s", line)
            listener.tls = ListenerTls(made)

    def _first(self, make: _ContextMaking, node_id: int, listener: Listener) -> TlsContext:
        """Load keys as the present options say; or as the static configuration says, if stored options are not usable any
        more."""
        try:
            return make(self._live_config.node_config(node_id), listener)
        except ConfigError as error:
            static = self._live_config.static.node(node_id)
            try:
                made = make(static, listener)
            except ConfigError:
                raise error from None
            log.error("stored broker configs of node %d ignored for listener %s: %s", node_id, listener.name, error)
            return made

    def concerns(self, names: Iterable[str]) -> bool:
        """Return whether a change of these options may change keys."""
        return bool(self._secured) and any("ssl." in name for name in names)

    async def prepared(self, configs: Mapping[int, BrokerConfig], *, anew: bool) -> Prepared:
        """Load the keys for nodes with these configs (by node id); `take` puts them into use.

        Args:
            anew: Read files again even if no option changes.

        Raises:
            KafkaError: INVALID_REQUEST: keys cannot be loaded, or the new certificate breaks `check_follows`; nothing has
                changed.
        """
        try:
            return await in_thread(Work.BACKGROUND, _FILES, self._prepared, configs, anew)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    def _prepared(self, configs: Mapping[int, BrokerConfig], anew: bool) -> Prepared:
        from ..security.tls.contexts import check_follows

        make = _ContextMaking()
        prepared = []
        for node_id, listener in self._secured:
            if node_id not in configs:
                continue
            assert listener.tls is not None
            present = listener.tls.present
            if anew or make.settings(configs[node_id], listener) != present.settings:
                made = make(configs[node_id], listener)
                check_follows(present, made)
                prepared.append((listener, made))
        return prepared

    def take(self, prepared: Prepared) -> None:
        """Use these keys for new connections."""
        for listener, made in prepared:
            assert listener.tls is not None
            listener.tls.present = made
            log.info("listener %s: reloaded keys and certificates", listener.name)

    async def run(self) -> None:
        """Check the files at intervals, until cancelled."""
        if self._secured:
            while True:
                await trio.sleep(LOOK_EVERY_S)
                try:
                    await self.look()
                except Exception:
                    log.exception("cannot check the key files; the current keys remain in use")

    async def look(self) -> None:
        """Load files that have changed."""
        present = {listener.tls.present for _, listener in self._secured if listener.tls is not None}
        for old, new in (await in_thread(Work.BACKGROUND, _FILES, self._changed, present)).items():
            # A change of options during the check has read the files as well.
            self.take(
                [
                    (listener, new)
                    for _, listener in self._secured
                    if listener.tls is not None and listener.tls.present is old
                ]
            )

    def _changed(self, present: Iterable[TlsContext]) -> dict[TlsContext, TlsContext]:
        from ..security.tls.contexts import check_follows, make_context
        from ..security.tls.stores import stamps_of

        changed = {}
        for old in present:
            settings = old.settings
            stamps = stamps_of(settings)
            if stamps in (old.stamps, self._refused.get(settings)):
                continue
            self._refused.pop(settings, None)
            try:
                new = make_context(settings)
                check_follows(old, new)
            except ConfigError as error:
                self._refused[settings] = stamps
                log.error("changed key files are not used, the current keys remain in use: %s", error)
            else:
                changed[old] = new
        return changed


class _ContextMaking:
    """Maker of TLS contexts; nodes with equal settings share one."""

    def __init__(self) -> None:
        from ..security.tls.contexts import make_context
        from ..security.tls.settings import tls_settings

        self.settings: Callable[[BrokerConfig, Listener], TlsSettings]
        self.settings = lambda config, listener: tls_settings(
            config, listener.name, is_over_sasl=listener.security_protocol in OVER_SASL
        )
        self._make_context = make_context
        self._made: dict[TlsSettings, TlsContext] = {}

    def __call__(self, config: BrokerConfig, listener: Listener) -> TlsContext:
        """Return the context of a listener. Raises ConfigError."""
        settings = self.settings(config, listener)
        if settings not in self._made:
            self._made[settings] = self._make_context(settings)
        return self._made[settings]
