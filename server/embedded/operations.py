"""Modules of `..control`, each loaded at its first use, to keep them out of the start."""

# ruff: noqa: PLC0414 -- imported under the same name to re-export it
from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..control import acls as acls
    from ..control import compaction as compaction
    from ..control import dry_run as dry_run
    from ..control import explain as explain
    from ..control import nodes as nodes
    from ..control import pictures as pictures
    from ..control import quotas as quotas
    from ..control import segments as segments
    from ..control import topics as topics
    from ..control import waits as waits


def __getattr__(name: str) -> ModuleType:
    try:
        return import_module(f"..control.{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.endswith(f".control.{name}"):
            raise  # a module that it needs
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
