"""Difference of a key between two topics, from all of its records on both sides.

missing here, there     no value on that side: no record, or a tombstone at its end
other value             neither side has the other's newest among its own
an older value          one side's newest is an earlier one of the other's: it lags, or has lost the last
order of versions       the same values on both sides, and another one at the end
as many                 (every version) one side has more records of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..verify.findings import Finding
from .equal import Differing, Newest, Version

MISSING = "a key is on both sides"
VALUE = "the newest value of a key is the same on both sides"
ORDER = "the versions of a key have the same order on both sides"
COUNT = "a key has as many versions on both sides"


class SideName(NamedTuple):
    """Name of a side."""

    topic: str
    bootstrap: str

    def describe(self, partition: int) -> str:
        return f"{self.topic}-{partition} at {self.bootstrap}"


def has_moved(key: Differing, here: Sequence[Version], there: Sequence[Version]) -> bool:
    """Return whether a key has other newest records than in the first look, as a producer is writing it."""
    return any(
        (Newest(versions[-1].partition, versions[-1].offset) if versions else None) != before
        for versions, before in ((here, key.here), (there, key.there))
    )


def difference(
    key: bytes | None, here: Sequence[Version], there: Sequence[Version], places: tuple[SideName, SideName], *, every_version: bool
) -> Finding | None:  # fmt: skip
    """Return the finding about a key; None if it does not differ.

    Args:
        here, there: Its records on either side, oldest first.
    """
    newest_here, newest_there = (each[-1] if each else None for each in (here, there))
    is_here, is_there = (each is not None and not each.deleted for each in (newest_here, newest_there))
    if is_here != is_there:
        return _missing(key, newest_here, newest_there, places, is_here=is_here)
    if newest_here is None or newest_there is None or not (is_here or every_version):
        if every_version and (newest_here or newest_there) is not None:
            return _counted(key, here, there, places)
        return None
    place, offset = places[0].describe(newest_here.partition), newest_here.offset
    expected = f"what is at offset {newest_there.offset} of {places[1].describe(newest_there.partition)}"
    if not newest_here.is_like(newest_there):
        same_here = _last_like(here, newest_there)
        same_there = _last_like(there, newest_here)
        if same_here is not None and same_there is not None:
            actual = f"the same in another order: that is at offset {same_here.offset} here, this at {same_there.offset} there"
            return Finding(ORDER, place, None, offset, expected, actual, key)
        if same_there is not None:
            actual = f"an older value, that of offset {same_there.offset} there"
        elif same_here is not None:
            actual = f"a newer one: that value is at offset {same_here.offset} here"
        else:
            actual = "another value"
        return Finding(VALUE, place, None, offset, expected, actual, key)
    return _in_sequence(key, here, there, places) if every_version else None


def _missing(
    key: bytes | None, here: Version | None, there: Version | None, places: tuple[SideName, SideName], *, is_here: bool
) -> Finding:
    have, lack = (here, there) if is_here else (there, here)
    assert have is not None
    of_have, of_lack = places if is_here else places[::-1]
    expected = f"the value of offset {have.offset} of {of_have.describe(have.partition)}"
    if lack is None:
        return Finding(MISSING, of_lack.describe(have.partition), None, -1, expected, "no record of it", key)
    return Finding(MISSING, of_lack.describe(lack.partition), None, lack.offset, expected, "a tombstone", key)


def _in_sequence(
    key: bytes | None, here: Sequence[Version], there: Sequence[Version], places: tuple[SideName, SideName]
) -> Finding | None:
    if Counter((each.value, each.deleted) for each in here) != Counter((each.value, each.deleted) for each in there):
        return _counted(key, here, there, places)
    for one, other in zip(here, there, strict=True):
        if not one.is_like(other):
            expected = f"what is at offset {other.offset} of {places[1].describe(other.partition)}"
            actual = "the same versions in another order"
            return Finding(ORDER, places[0].describe(one.partition), None, one.offset, expected, actual, key)
    return None


def _counted(
    key: bytes | None, here: Sequence[Version], there: Sequence[Version], places: tuple[SideName, SideName]
) -> Finding | None:
    more, less = (
        Counter((each.value, each.deleted) for each in there),
        Counter((each.value, each.deleted) for each in here),
    )
    if more == less:
        return None
    surplus = (more - less) or (less - more)
    is_there = bool(more - less)
    extra = next(each for each in (there if is_there else here) if (each.value, each.deleted) in surplus)
    of = places[is_there]
    expected = f"{len(there)} versions, as {places[1].describe(there[-1].partition if there else extra.partition)} has"
    actual = f"{len(here)}; that of offset {extra.offset} of {of.describe(extra.partition)} is not on the other side"
    place = places[0].describe(here[-1].partition if here else extra.partition)
    return Finding(COUNT, place, None, here[-1].offset if here else -1, expected, actual, key)


def _last_like(versions: Sequence[Version], wanted: Version) -> Version | None:
    return next((each for each in reversed(versions) if each.is_like(wanted)), None)
