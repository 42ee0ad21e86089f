"""Freeing of a message of a million elements without blocking other threads.

When the last reference to such a tuple is dropped, C code frees its whole content, a tenth of a second in which no other thread
runs. If it is freed in pieces, other threads run between them. Long arrays are lists (`protocol.codegen.as_array`), which can
be emptied in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from sys import getrefcount
from typing import Any

from ...protocol.schema import fields_of

# Shorter sequences may be freed at once.
FEW = 1_000
# Result of `getrefcount` for an object with one reference: that, and its own argument.
OURS_ALONE = 2


def free(things: list[Any]) -> None:
    """Empty `things`, and free the messages and sequences in it; objects with other references are not changed."""
    stack = [things]
    while stack:
        top = stack[-1]
        if not top:
            stack.pop()
            continue
        thing = top.pop()
        if getrefcount(thing) > OURS_ALONE:
            continue
        if isinstance(thing, (list, tuple)):
            arrays: list[Any] = [thing]
        else:
            arrays = [getattr(thing, name) for name in _arrays(type(thing))]
        # The items are copied into a list of ours before the last reference to their array is dropped, so that frees none of
        # them.
        del thing
        while arrays:
            array = arrays.pop()
            if getrefcount(array) > OURS_ALONE:
                continue
            if isinstance(array, list):
                stack.append(array)
            elif isinstance(array, tuple) and (len(array) > FEW or (array and _arrays(type(array[0])))):
                stack.append(list(array))
            del array


def free_frames(error: BaseException) -> None:
    """Free the local objects of the functions that `error` has ended, as `free` does."""
    trace = error.__traceback__
    while trace is not None:
        values = trace.tb_frame.f_locals
        things = [value for value in values.values() if isinstance(value, (list, tuple))]
        try:
            trace.tb_frame.clear()
        except RuntimeError:
            pass  # It is still running.
        else:
            values.clear()
            free(things)
        trace = trace.tb_next


def give_back() -> None:
    """Return freed memory that the C library keeps to the system, if the library can do that (glibc).

    It keeps some hundred bytes of each element, for threads that may never allocate again. Takes milliseconds without the GIL.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    import ctypes  # Few processes ever need it.

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


ARENAS_MAX = 2
"""Number of malloc arenas. glibc gives each thread one, up to eight per processor, and keeps freed memory in each. The GIL lets
threads allocate one after the other anyway: with two arenas a busy broker needs less memory, and the same CPU."""
_M_ARENA_MAX = -8  # malloc.h


def share_arenas() -> None:
    """Limit the arenas of glibc to ARENAS_MAX, so that threads share freed memory.

    Does nothing if MALLOC_ARENA_MAX is set.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS_MAX)


_ARRAYS: dict[type[Any], tuple[str, ...]] = {}


def _arrays(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a message class's array fields."""
    known = _ARRAYS.get(cls)
    if known is None:
        known = ()
        if hasattr(cls, "__dataclass_fields__"):
            with suppress(TypeError, NameError):  # not a message
                known = tuple(field.name for field in fields_of(cls) if field.type.item is not None)
        _ARRAYS[cls] = known
    return known
