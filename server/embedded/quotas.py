"""Quotas of an embedded broker: `broker.set_quotas("client-id=app", producer_byte_rate=1024)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import operations
from .running import Running

if TYPE_CHECKING:  # Loaded when somebody asks for it: no start shall wait for that.
    from ..control.quotas import ThrottledState


class Limiting(Running):
    """What `ottla.Broker` has to do with how much clients may use.

    An entity is `user=NAME`, `client-id=NAME`, both with a comma between, or `ip=ADDRESS`; the name `<default>` is for all that have no
    quota of their own. Throttle times go by the broker's clock.
    """

    def quotas(self) -> dict[str, dict[str, float]]:
        """What is set, by entity and key."""
        return {state.entity: dict(state.quotas) for state in self._ask(operations.quotas.list_quotas).quotas}

    def set_quotas(self, entity: str, **quotas: float | None) -> None:
        """Set quotas of one entity, and remove those that are None; those that are not named stay.

        They hold when this returns, for clients that are connected, too.

        Args:
            quotas: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage`, `controller_mutation_rate`; of an address
                `connection_creation_rate`.

        Raises:
            ControlError: No entity, no such quota, a value beyond its bound, or the disk refused; nothing has changed.
        """
        self._ask(operations.quotas.set_quotas, entity, quotas)

    def remove_quotas(self, entity: str, *keys: str) -> None:
        """Remove quotas of one entity: these, or all.

        Raises:
            ControlError: It has none, or the disk refused.
        """
        self._ask(operations.quotas.remove_quotas, entity, keys)

    def throttled(self) -> tuple[ThrottledState, ...]:
        """Who is above a quota and has to wait, for how long, and why."""
        return self._ask(operations.quotas.list_throttled).throttled
