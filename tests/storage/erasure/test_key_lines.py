"""Keys in the lines of a file, in each encoding."""

from __future__ import annotations

import pytest

from ottla.storage.erasure.key_lines import keys_in
from support.noted import each_case


@each_case(
    "data, encoding, expected",
    [
        (b"", "text", []),
        (b"17\r\n\n 18 \n\xff", "text", [b"17", b" 18 ", b"\xff"]),
        (b"00ff\n3137", "hex", [b"\0\xff", b"17"]),
        (b"MTc=\r\n", "base64", [b"17"]),
    ],
)
def test_each_line_is_a_key(data: bytes, encoding: str, expected: list[bytes]) -> None:
    assert list(keys_in(data, encoding)) == expected


@each_case(
    "data, encoding", [(b"00\n0", "hex"), (b"00\n\xff", "hex"), (b"MTc=\nMTc", "base64"), (b"MTc=\n*", "base64")]
)
def test_an_invalid_line_is_named(data: bytes, encoding: str) -> None:
    with pytest.raises(ValueError, match=f"^line 2: expected a key in {encoding}"):
        list(keys_in(data, encoding))
