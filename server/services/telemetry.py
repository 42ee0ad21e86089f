"""Client metrics, as handlers see them; loaded with the first request."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import trio

from ...protocol.errors import ErrorCode
from ..config.live_config import LiveConfig
from ..runtime.log_rate_limit import LogRateLimiter

if TYPE_CHECKING:
    from ..telemetry.instances import Instances

log = logging.getLogger("ottla.telemetry")


class Telemetry:
    """Client metrics of one broker. Without a receiver the APIs are not advertised, and pushed metrics are dropped."""

    def __init__(self, config: LiveConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._failures = LogRateLimiter(log)
        self._instances: Instances | None = None
        self._reading = trio.Lock()
        self._changes = 1
        self._taken = 0
        """Number of subscription changes that `_instances` know."""

    def open(self) -> None:
        """Make the receiver. Blocks. Raises OSError if that is a directory that cannot be created."""
        _ = self._receiver

    @property
    def has_receiver(self) -> bool:
        return self._config.static.telemetry is not None

    async def instances(self) -> Instances:
        """Return the clients that push, with the present subscriptions."""
        if self._instances is None:
            from ..telemetry.instances import Instances

            self._instances = Instances(self._rng)
        while self._taken != self._changes:
            async with self._reading:
                if (changes := self._changes) != self._taken:
                    await self._instances.subscribe(self._subscriptions())
                    self._taken = changes
        return self._instances

    def subscriptions_changed(self) -> None:
        """Note that the subscriptions in the catalog have changed."""
        self._changes += 1

    async def receive(self, codec: int, data: bytes, facts: dict[str, Any]) -> ErrorCode:
        """Give a client's report to the receiver; INVALID_RECORD if that cannot be unpacked, or the receiver raises."""
        receive = self._receiver
        if receive is None:
            return ErrorCode.NONE
        try:
            await trio.to_thread.run_sync(
                self._hand_over, receive, codec, data, facts, limiter=self._one_at_a_time, abandon_on_cancel=True
            )
        except Exception as error:  # noqa: BLE001 -- any error of a receiver function of the program
            self._failures.log(
                logging.ERROR, "client metrics of %s were rejected: %.500s", facts["client_instance_id"], error
            )
            return ErrorCode.INVALID_RECORD
        return ErrorCode.NONE

    @cached_property
    def _receiver(self) -> Callable[[Any], object] | None:
        wanted = self._config.static.telemetry
        if wanted is None:
            return None
        from ..telemetry.receivers import receiver_of

        return receiver_of(wanted)

    @staticmethod
    def _hand_over(receive: Callable[[Any], object], codec: int, data: bytes, facts: dict[str, Any]) -> None:
        from ..telemetry.receivers import ClientMetrics, unpacked

        receive(ClientMetrics(otlp=unpacked(codec, data), **facts))

    def _subscriptions(self) -> dict[str, Any]:
        return {name: self._config.client_metrics(name) for name in self._config.client_metrics_names()}
