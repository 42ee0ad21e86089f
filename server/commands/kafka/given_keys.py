"""Keys that a command line names, as arguments and in a file."""

from __future__ import annotations

import argparse
import os

from ....storage.erasure.key_lines import keys_in
from ....storage.erasure.places import KEYS_MAX
from ...control.operation import Encoding, decoded
from ...runtime.errors import ControlError
from ..frame.errors import wrong_call

KEY_BYTES_MAX = 2 << 20
"""Maximum size of all keys together."""
FILE_BYTES_MAX = 16 << 20
READ_BYTES = 256 << 10
_STANDARD_INPUT = 0


def given_keys(options: argparse.Namespace) -> frozenset[bytes]:
    """Return the keys of the arguments, and of the file of --keys-from.

    Raises:
        CommandError: WRONG_CALL. A key is not in the encoding, the file cannot be read, or there are no keys or too many.
    """
    try:
        keys = {decoded("key", text, Encoding(options.key_encoding)) for text in options.keys}
    except ControlError as error:
        raise wrong_call(str(error)) from error
    if options.keys_from:
        try:
            keys.update(keys_in(_content(options.keys_from), options.key_encoding))
        except ValueError as error:
            raise wrong_call(f"{options.keys_from}: {error}") from error
    if not keys:
        raise wrong_call("no keys: give KEY, or --keys-from FILE")
    if len(keys) > KEYS_MAX:
        raise wrong_call(f"too many keys ({len(keys)}, limit {KEYS_MAX}): divide them over several calls")
    if (size_bytes := sum(map(len, keys))) > KEY_BYTES_MAX:
        raise wrong_call(
            f"keys too large ({size_bytes} bytes together, limit {KEY_BYTES_MAX}): divide them over several calls"
        )
    return frozenset(keys)


def _content(path: str) -> bytes:
    """Return the content of a file, or of standard input for `-`."""
    try:
        if path == "-":
            data = _standard_input()
        else:
            with open(path, "rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise wrong_call(f"cannot read {path}: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise wrong_call(f"{path}: too large (limit {FILE_BYTES_MAX} bytes)")
    return data


def _standard_input() -> bytes:
    found = bytearray()
    while len(found) <= FILE_BYTES_MAX and (data := os.read(_STANDARD_INPUT, READ_BYTES)):
        found += data
    return bytes(found)
