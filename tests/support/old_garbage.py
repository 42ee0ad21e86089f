"""Garbage that only a full collection of Python's collector finds."""

from __future__ import annotations

import gc
import weakref


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class OldGarbage:
    """An unreachable ring among the old objects."""

    def __init__(self) -> None:
        gc.collect()
        ring = Ring()
        self._ring = weakref.ref(ring)
        gc.collect(0)
        gc.collect(1)
        del ring

    def is_there(self) -> bool:
        """Return whether no full collection has run since."""
        return self._ring() is not None
