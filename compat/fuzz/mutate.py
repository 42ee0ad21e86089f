"""Damage: every way in which bytes can be wrong. A frame in, the bytes to send out."""

import random
import struct

INTERESTING = (0, 1, -1, 127, 128, 255, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**24, 1_000_000)
MAX_FRAME_BYTES = 1 << 20


def mutate(rng: random.Random, frames: list[bytes]) -> bytes:
    """Return a damaged frame: one to four kinds of damage, mostly under a size that still fits, so that parsing goes deep."""
    body = bytearray(rng.choice(frames)[4:])
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice(DAMAGE)(rng, body, frames)
    del body[MAX_FRAME_BYTES:]
    size = len(body)
    if rng.random() < 0.02:
        size = rng.choice((size + rng.randrange(-20, 20), *INTERESTING))
    return struct.pack(">I", size & 0xFFFFFFFF) + bytes(body)


def _flip_bits(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    for _index in range(rng.randrange(1, 9)):
        if body:
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)


def _set_bytes(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    for _index in range(rng.randrange(1, 5)):
        if body:
            body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _set_number(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    """Change an int8, int16, int32 or int64 somewhere to a value that is often wrong."""
    width = rng.choice((1, 2, 4, 8))
    if len(body) >= width:
        at = rng.randrange(len(body) - width + 1)
        body[at : at + width] = (rng.choice(INTERESTING) & (2 ** (8 * width) - 1)).to_bytes(width, "big")


def _cut(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    del body[rng.randrange(len(body) + 1) :]


def _remove(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    at = rng.randrange(len(body) + 1)
    del body[at : at + rng.randrange(1, 40)]


def _insert(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    at = rng.randrange(len(body) + 1)
    body[at:at] = rng.randbytes(rng.randrange(1, 40))


def _repeat(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    at = rng.randrange(len(body) + 1)
    piece = body[at : at + rng.randrange(1, 200)]
    body[at:at] = piece * rng.randrange(1, 20)


def _splice(rng: random.Random, body: bytearray, frames: list[bytes]) -> None:
    """Replace the frame's tail by the tail of another frame."""
    other = rng.choice(frames)[4:]
    body[rng.randrange(len(body) + 1) :] = other[rng.randrange(len(other) + 1) :]


def _other_version(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    if len(body) >= 4:
        body[2:4] = struct.pack(">h", rng.randrange(-1, 20))


def _other_api(rng: random.Random, body: bytearray, _: list[bytes]) -> None:
    if len(body) >= 2:
        body[0:2] = struct.pack(">h", rng.randrange(0, 95))


DAMAGE = (
    _flip_bits,
    _set_bytes,
    _set_number,
    _set_number,
    _cut,
    _remove,
    _insert,
    _repeat,
    _splice,
    _other_version,
    _other_api,
)
