"""SCRAM functions for both sides of a connection (RFC 5802, RFC 7677).

`salted` takes milliseconds; everything else takes next to no time.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""The mechanisms, each with its hash function."""
CODES = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""Mechanisms by their codes in requests (KIP-554)."""
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """Data that a server stores for a password: enough to check a proof, but not to make one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, as clients send it when they set a password. For worker threads."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the data to store for a `salted` password."""
    client_key = mac(mechanism, salted_password, b"Client Key")
    return ScramCredential(
        salt, digest(mechanism, client_key), mac(mechanism, salted_password, b"Server Key"), iterations
    )


def mac(mechanism: str, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, HASHES[mechanism])


def digest(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def xor(one: bytes, other: bytes) -> bytes:
    """Return the XOR of two byte strings of the same length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
