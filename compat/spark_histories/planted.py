"""Damage in a large compacted log, a kind in each of several segments; one run must find all of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.protocol.records import RecordBatch
from ottla.protocol.records import batches as batches_of
from support.pipeline.planted_damage import Change, changed, header, records, twice, value, without

from ..support.logs.big_log import linked_copy
from .big_log import TP


class Planted(NamedTuple):
    """A planted error to find."""

    what: str
    rule: str
    """The beginning of the rule's name."""
    offset: int


def planted(data_dir: Path, before: Path, damaged: Path) -> list[Planted]:
    """Plant damage in a copy of a compacted log.

    Args:
        before: The log from before it was compacted, with the same segments.
    """
    linked_copy(data_dir, damaged)
    found = []
    of_use = [log for log in sorted((damaged / str(TP)).glob("*.log")) if any(_candidates(log.read_bytes()))]
    logs = iter(of_use[-1 - len(_KINDS) :])
    path = next(logs).with_suffix(".index")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    _replace(path, bytes(data))
    last = int(path.stem) + int.from_bytes(data[-8:-4])
    found.append(Planted("an offset index that points elsewhere", "offset index entries", last))
    for what, rule, plant in _KINDS:
        path = next(logs)
        offset, changed_data = plant(path.read_bytes(), before / str(TP) / path.name)
        _replace(path, changed_data)
        for kind in (".index", ".timeindex"):  # Any server rebuilds these, so the error is in the log alone
            path.with_suffix(kind).unlink()
        found.append(Planted(what, rule, offset))
    return found


def _changed_by(change: Change) -> Callable[[bytes, Path], tuple[int, bytes]]:
    def plant(data: bytes, _: Path) -> tuple[int, bytes]:
        offset = _middle(data).base_offset
        return offset, changed(data, offset, change)

    return plant


def _bit(data: bytes, _: Path) -> tuple[int, bytes]:
    batch, flipped = _middle(data), bytearray(data)
    flipped[data.index(bytes(batch.view[:16])) + 100] ^= 1
    return batch.base_offset, bytes(flipped)


def _first_record_lost(data: bytes, _: Path) -> tuple[int, bytes]:
    offset = next(iter(_middle(data).records())).offset
    return offset, changed(data, offset, without(offset))


def _first_record_changed(data: bytes, _: Path) -> tuple[int, bytes]:
    offset = next(iter(_middle(data).records())).offset
    other = value(b"other")
    return offset, changed(data, offset, records(lambda each: other(each) if each.offset == offset else each))


def _superseded_left(data: bytes, before: Path) -> tuple[int, bytes]:
    """Restore the original of a batch that has lost its first record."""
    chosen = _middle(data)
    kept = {record.offset for record in chosen.records()}
    original = next(each for each in batches_of(before.read_bytes()) if each.base_offset == chosen.base_offset)
    first_left = next(record.offset for record in original.records() if record.offset not in kept)
    return first_left, changed(data, chosen.base_offset, lambda _: [bytes(original.view)])


_KINDS: tuple[tuple[str, str, Callable[[bytes, Path], tuple[int, bytes]]], ...] = (
    ("a flipped bit", "a batch has the CRC", _bit),
    ("a newest value lost", "a key's newest record", _first_record_lost),
    ("another value", "a record keeps its value", _first_record_changed),
    ("a batch that is there twice", "offsets rise", _changed_by(twice)),
    ("another producer", "a batch without a producer", _changed_by(header(producer_epoch=3))),
    ("a superseded value left", "a superseded record is gone", _superseded_left),
)
"""The kinds in the order in which they are planted: the last one makes more findings than a report names."""


def _middle(data: bytes) -> RecordBatch:
    """Return a batch after the middle, with records that have values, some of which were compacted away."""
    return next(_candidates(data))


def _candidates(data: bytes) -> Iterator[RecordBatch]:
    found = list(batches_of(data))
    for each in found[len(found) // 2 :]:
        if each.codec == 0 and 1 < each.record_count <= each.last_offset_delta and next(iter(each.records())).value:
            yield each


def _replace(path: Path, data: bytes) -> None:
    """Write another file: the bytes of the old one may be shared."""
    path.unlink()
    path.write_bytes(data)
