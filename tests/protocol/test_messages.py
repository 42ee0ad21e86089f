"""Every message of every API in every version: written, read back, cut, extended, damaged."""

import random
from functools import partial
from itertools import product
from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.wire import Parts, codec
from support.noted import each_case, noted
from support.sizes import cuts_of, size
from support.strategies import all_versions, as_of, same, sample, seen_versions, with_messages, without_forbidden_nulls

EACH_API = each_case("api", APIS.values())
SIDES = ("request", "response")
# (class, versions inclusive, first flexible version)
BLOBS = [
    (ConsumerProtocolSubscription, (0, 3), None),
    (ConsumerProtocolAssignment, (0, 3), None),
    (OffsetCommitKey, (0, 0), None),
    (OffsetCommitValue, (0, 4), 4),
    (GroupMetadataKey, (0, 0), None),
    (GroupMetadataValue, (0, 4), 4),
]


def write(value: Any, version: int, flexible: bool) -> bytes:
    parts: Parts = [bytearray()]
    codec(type(value), version, flexible).write(value, parts)
    return b"".join(parts)


def read(cls: type[Any], version: int, flexible: bool, raw: bytes) -> Any:
    """Return the value, which must use all bytes."""
    value, end = codec(cls, version, flexible).read(memoryview(raw), 0)
    if end != len(raw):
        raise ProtocolError(f"{len(raw) - end} bytes left over")
    return value


@EACH_API
def test_a_written_message_reads_back_in_every_version(api: Api) -> None:
    with_messages((api.request, api.response), size(2, 25), partial(check_each_version, api))


def check_each_version(api: Api, *both: Any) -> None:
    for full, version in product(both, all_versions(api)):
        with noted(f"{type(full).__name__}, version {version}"):
            value = as_of(full, version)
            flexible = api.is_flexible(version)

            raw = write(value, version, flexible)

            assert same(value, read(type(value), version, flexible, raw))
            others = write(without_forbidden_nulls(full, version), version, flexible)
            assert raw == others, "other versions' fields show"


@pytest.mark.parametrize("cls, versions, flexible_since", BLOBS, ids=[cls.__name__ for cls, *_ in BLOBS])
def test_blobs_inside_messages_and_records_are_read_back(
    cls: type[Any], versions: tuple[int, int], flexible_since: int | None
) -> None:
    def check(full: Any) -> None:
        for version in range(versions[0], versions[1] + 1):
            flexible = flexible_since is not None and version >= flexible_since
            value = as_of(full, version)

            assert same(value, read(cls, version, flexible, write(value, version, flexible)))

    with_messages((cls,), size(8, 25), check)


@EACH_API
def test_a_message_cut_anywhere_is_refused(api: Api) -> None:
    for side, version in product(SIDES, seen_versions(api, all_versions(api))):
        cls, flexible = getattr(api, side), api.is_flexible(version)
        raw = write(as_of(sample(cls), version), version, flexible)
        for end in cuts_of(raw):
            with noted(f"{side}, version {version}, {end} bytes"), pytest.raises(ProtocolError):
                read(cls, version, flexible, raw[:end])


@EACH_API
def test_damaged_messages_are_read_or_refused_but_nothing_else(api: Api) -> None:
    """Any bytes give a value or ProtocolError."""
    dice = {side: random.Random(f"{api.name} {side}") for side in SIDES}
    for side, version in product(SIDES, seen_versions(api, all_versions(api))):
        cls, flexible = getattr(api, side), api.is_flexible(version)
        raw = write(as_of(sample(cls), version), version, flexible)
        for damage in range(size(6, 40)):
            mangled = (
                mangle(raw, dice[side]) if damage % 2 else dice[side].randbytes(dice[side].randrange(len(raw) + 8))
            )
            with noted(f"{side}, version {version}, {mangled.hex()}"):
                check_read_or_refused(cls, version, flexible, mangled)


def check_read_or_refused(cls: type[Any], version: int, flexible: bool, data: bytes) -> None:
    try:
        value = read(cls, version, flexible, data)
    except ProtocolError:
        return
    # Accepted bytes have a meaning: the value can be written and read again, with the same result.
    assert same(value, read(cls, version, flexible, write(value, version, flexible)))


def mangle(raw: bytes, dice: random.Random) -> bytes:
    """Return a copy with one byte changed, some removed, or some inserted."""
    out = bytearray(raw)
    at = dice.randrange(len(out) + 1)
    match dice.randrange(4):
        case 0 if out:
            out[at % len(out)] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        case 1:
            del out[at : at + dice.randrange(1, 5)]
        case 2:
            out[at:at] = dice.randbytes(dice.randrange(1, 5))
        case _:
            out[at : at + 4] = dice.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"))
    return bytes(out)
