"""The cleaner's kernel in two forms, compiled and interpreted, side by side in one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from ottla.storage import kernel
from ottla.storage.filter import clean_rules, offset_map

_SOURCE = Path(__file__).parents[3] / "storage" / "kernel.py"


def _interpreted() -> ModuleType:
    """Return `kernel.py` as plain Python, with Ottla's substitute for `cython` even if the package is installed."""
    spec = spec_from_file_location("ottla.storage.kernel_interpreted", _SOURCE)
    assert spec and spec.loader
    module = module_from_spec(spec)
    real = sys.modules.get("cython")
    sys.modules["cython"] = None  # type: ignore[assignment]  # importing it fails
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["cython"]
        if real is not None:
            sys.modules["cython"] = real
    return module


INTERPRETED = _interpreted()

needs_compiled = pytest.mark.skipif(not kernel.COMPILED, reason="no compiled kernel here: there was no C compiler")
both = pytest.mark.parametrize(
    "kernel", [INTERPRETED, pytest.param(kernel, marks=needs_compiled)], ids=["interpreted", "compiled"]
)


@contextmanager
def cleaning_with(module: ModuleType) -> Iterator[None]:
    """Run passes on this kernel during the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_map, "KeyMap", module.KeyMap)
        patch.setattr(clean_rules, "RecordFilter", module.RecordFilter)
        yield
