"""A bell, which rings when its owner changes."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Hashable, by identity."""

    def ring(self) -> None:
        """Note the change. Called at most once."""


class Bell(dict[Listener, None]):
    """Listeners to the next change of one thing, in the order in which they came."""

    rings = 0
    """How often it has rung."""

    def ring(self) -> None:
        """Notify all listeners, and forget them."""
        self.rings += 1
        listeners = list(self)
        self.clear()
        for listener in listeners:
            listener.ring()
