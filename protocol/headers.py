"""Headers of requests and responses: the bytes before every body.

    request    api_key int16 | api_version int16 | correlation_id int32 | client_id int16 length + bytes | tags*
    response   correlation_id int32 | tags*                                             * in flexible versions only

The client ID keeps its two-byte length even in flexible headers, so that any broker can read the header of an
ApiVersions request of a later version.
"""

import struct

from .codegen import java_text
from .errors import ProtocolError
from .wire import read_uvarint, uvarint

# Kafka has not defined any tagged field of a header yet. Unknown ones must be skipped, but not millions of them.
MAX_HEADER_TAGS = 256

_REQUEST_START = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


def read_request_header(view: memoryview) -> tuple[int, int, int, str | None, int]:
    """Read the header up to the client ID, which is the same in all versions.

    Returns:
        (API key, version, correlation ID, client ID, position of the tags or the body).

    Raises:
        ProtocolError: The header is incomplete, or the client ID is not text.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(view, 0)
    except struct.error:
        raise ProtocolError(f"a request of {len(view)} bytes has no header") from None
    at: int = _REQUEST_START.size
    if length < 0:
        return api_key, api_version, correlation_id, None, at
    end = at + length
    if end > len(view):
        raise ProtocolError("request header: truncated client ID")
    try:
        try:
            client_id = str(view[at:end], "utf-8")
        except UnicodeDecodeError:
            client_id = java_text(view[at:end])
    except UnicodeDecodeError as error:
        raise ProtocolError(f"request header: client ID: {error}") from None
    return api_key, api_version, correlation_id, client_id, end


def skip_tags(view: memoryview, at: int) -> int:
    """Skip a header's tagged fields, of which Kafka has defined none; returns the position of the body."""
    try:
        n = view[at]
        at += 1
        if n == 0:
            return at
        if n > 127:
            n, at = read_uvarint(view, at, n)
        if n > MAX_HEADER_TAGS:
            raise ProtocolError(f"header: too many tagged fields ({n}, limit {MAX_HEADER_TAGS})")
        for _ in range(n):
            _, at = _uvarint_at(view, at)
            length, at = _uvarint_at(view, at)
            at += length
    except IndexError:
        raise ProtocolError("header: truncated tagged fields") from None
    if at > len(view):
        raise ProtocolError("header: truncated tagged fields")
    return at


def _uvarint_at(view: memoryview, at: int) -> tuple[int, int]:
    first = view[at]
    return (first, at + 1) if first < 128 else read_uvarint(view, at + 1, first)


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None, flexible: bool) -> bytes:
    """Encode a request header as a client sends it."""
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    return _REQUEST_START.pack(api_key, api_version, correlation_id, length) + raw + (uvarint(0) if flexible else b"")


def read_response_header(view: memoryview, flexible: bool) -> tuple[int, int]:
    """Read a response header; returns (correlation ID, position of the body). Raises ProtocolError."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view, 0)
    except struct.error:
        raise ProtocolError(f"a response of {len(view)} bytes has no header") from None
    return correlation_id, skip_tags(view, 4) if flexible else 4
