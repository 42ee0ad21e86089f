"""Frees a message of a million elements without keeping the interpreter from other threads.

When the last name of such a tuple goes, C code frees all in it, a tenth of a second in which no other thread runs. Piece by
piece, others may run between any two of them. Long arrays are lists (`protocol.codegen.as_array`), which can be emptied where
they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from sys import getrefcount
from typing import Any

from ...protocol.schema import fields_of

# What is shorter may go at once.
FEW = 1_000
# What `getrefcount` says of what has one name: that, and its own argument.
OURS_ALONE = 2


def free(things: list[Any]) -> None:
    """Empty `things`, and free the messages and sequences among them; what somebody else names stays as it is."""
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
        # The items come into a list of ours before the last name of their array goes, so it frees none of them.
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
    """Free what the functions that `error` has ended had made so far, as `free` does."""
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
    """Let the system have the memory that the C library keeps of what was freed, where that library can (glibc).

    It keeps some hundred bytes of each element, for threads that may never ask again. Takes milliseconds without the GIL.
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
"""glibc gives each thread an arena, up to eight for each processor, and keeps in each what was freed there. Python's own lock lets
threads allocate one after the other anyway: with two, the memory of a broker at work is smaller, and its CPU the same."""
_M_ARENA_MAX = -8  # malloc.h


def share_arenas() -> None:
    """Have the threads of this process share what the C library keeps of freed memory, where it is glibc.

    Does nothing where MALLOC_ARENA_MAX says how many there shall be.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS_MAX)


_ARRAYS: dict[type[Any], tuple[str, ...]] = {}


def _arrays(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a message class that hold arrays."""
    known = _ARRAYS.get(cls)
    if known is None:
        known = ()
        if hasattr(cls, "__dataclass_fields__"):
            with suppress(TypeError, NameError):  # no message
                known = tuple(field.name for field in fields_of(cls) if field.type.item is not None)
        _ARRAYS[cls] = known
    return known
