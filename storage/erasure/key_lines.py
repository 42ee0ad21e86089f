"""Keys in a file, one in each line."""

from __future__ import annotations

import base64
from collections.abc import Iterator

ENCODINGS = ("text", "hex", "base64")
SHOWN_BYTES = 60


def keys_in(data: bytes, encoding: str) -> Iterator[bytes]:
    """Yield the key of each line; empty lines are left out.

    Args:
        encoding: One of `ENCODINGS`. As text, a key is the line as it is.

    Raises:
        ValueError: A line is not in this encoding; one sentence.
    """
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        try:
            if encoding == "hex":
                yield bytes.fromhex(line.decode("ascii"))
            elif encoding == "base64":
                yield base64.b64decode(line, validate=True)
            else:
                yield line
        except ValueError:
            shown = line[:SHOWN_BYTES].decode(errors="replace")
            raise ValueError(f"line {number}: expected a key in {encoding}, found {shown!r}") from None
