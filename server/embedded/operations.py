"""Modules of `..control`, each loaded when something of it is first asked for: no start waits for that."""

# ruff: noqa: PLC0414 -- a name that is to be seen from outside is imported so
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


def __getattr__(name: str) -> ModuleType:
    try:
        return import_module(f"..control.{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.endswith(f".control.{name}"):
            raise  # a module that it needs
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
