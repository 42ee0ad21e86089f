"""CRC-32C in hardware, from the package `crc32c`.

Its `__init__` asks for its own version number, and for that Python loads forty modules: a tenth of a broker's start. So the
compiled function is taken from beside it.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]


def _compiled() -> Any:
    """The function of the compiled module alone; None where the package is laid out otherwise."""
    package = find_spec("crc32c")
    found = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, "crc32c", None)


if TYPE_CHECKING or (crc32c := _compiled()) is None:
    from crc32c import crc32c
