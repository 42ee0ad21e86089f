"""Keeps pytest from rewriting the broker's own modules.

pytest rewrites the assertions of every distribution that has a plugin, so that failures show values. For two hundred modules
of a broker that takes half a second wherever bytecode is not kept (a fresh checkout, a container), and shows a user nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class PlainFinder:
    """Finds our modules as if pytest were not there, when it stands before pytest's finder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("ottla.") else None


def keep_from_rewriting() -> None:
    """From now on, for whatever is loaded in this process."""
    if PlainFinder in sys.meta_path:
        sys.meta_path.remove(PlainFinder)  # pytest within pytest has put another finder before it
    sys.meta_path.insert(0, PlainFinder)
