"""Replacement of the package `cython` when `kernel.py` runs interpreted: users need no build tool at run time.

It has only the parts that the kernel uses. Types have no effect here, so they are only names.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

compiled = False

longlong = ulonglong = uchar = int = bint = void = object


def declare(_type: Any = None, value: Any = None, **_options: Any) -> Any:
    return value


def cast(_type: Any, value: Any) -> Any:
    return value


def typedef(type_: Any) -> Any:
    return type_


def _unchanged(decorated: Any) -> Any:
    return decorated


cclass = final = cfunc = inline = _unchanged


def _unchanged_by(*_options: Any, **_more: Any) -> Any:
    return _unchanged


exceptval = boundscheck = _unchanged_by


class _NoGil:
    """Usable both as a decorator and as a context manager."""

    def __call__(self, decorated: Any) -> Any:
        return decorated

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


nogil = _NoGil()
