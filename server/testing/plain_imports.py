"""Keep pytest from rewriting the broker's own modules.

pytest rewrites the assertions of every distribution that has a plugin, so that failures show values. For two hundred modules of
a broker that takes half a second without stored bytecode (in a fresh checkout, a container), and has no use for a user.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class PlainFinder:
    """Finder for our modules without pytest's rewriting; must come before pytest's finder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("ottla.") else None


def keep_from_rewriting() -> None:
    """Install the finder, for all modules that are loaded later in this process."""
    if PlainFinder in sys.meta_path:
        sys.meta_path.remove(PlainFinder)  # pytest within pytest has put another finder in front of it
    sys.meta_path.insert(0, PlainFinder)
