"""Every array of every request at its maximum size, and other large requests of one client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .shapes import Form, Shape, forms, other_versions
from .values import DESTRUCTIVE, Known, Unknown, World

QUICK_COUNT = 10_000
LARGEST = 1 << 31


class Large(NamedTuple):
    """A request of many elements: its row's name, what it is, and its frame."""

    name: str
    form: str
    frame: Callable[[], bytes]


def large_requests(world: World, *, quick: bool) -> Iterator[Large]:
    known, unknown = Known(world), Unknown()
    for form in forms():
        yield one_large(form, "unknown", Shape(form, unknown), QUICK_COUNT if quick else LARGEST)
        if not quick:
            yield one_large(form, "unknown", Shape(form, unknown), QUICK_COUNT, "10 000")
        if form.api.name not in DESTRUCTIVE:
            yield one_large(form, "known", Shape(form, known), QUICK_COUNT if quick else LARGEST)
    for form in () if quick else other_versions():
        yield one_large(form, "unknown", Shape(form, unknown), LARGEST)


def one_large(form: Form, what: str, shape: Shape, count: int, mark: str = "") -> Large:
    """Return the form with `count` elements, or with as many as the limits allow."""
    count = min(count, shape.most)
    size_bytes = len(shape.frame(100)) * count // 100
    name = f"{form}, {what}" + (f", {mark}" if mark else "")
    return Large(name, f"{count} elements, {size_bytes / 1e6:.1f} MB", lambda: shape.frame(count))
