"""Conversion of frames to requests and of responses to frames, for the server's connection loop; and the client side.

A frame is an int32 size and that many bytes; `parse_request` gets it without the size, `encode_response` returns it with
the size. Records are never copied: those of a request are views into the frame, those of a response are separate elements
in the list of parts, which the connection sends unchanged.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from .apis import API_VERSIONS_KEY, APIS, Api
from .errors import ErrorCode, ProtocolError
from .headers import read_request_header, read_response_header, request_header, skip_tags
from .wire import NO_LIMIT, MessageCodec, Parts, codec

REQUEST_ELEMENTS_MAX = 100_000
"""Largest number of elements in a request: ten times what a request for every partition of a large broker needs. Apache Kafka
limits only the bytes of a frame. Here the objects made for the elements must also be freed without blocking other clients."""

_SIZE = struct.Struct(">i")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_KEY_AND_VERSION = struct.Struct(">hh")


class Spoken(NamedTuple):
    """Codecs of one version of an API."""

    is_flexible: bool
    has_flexible_response_header: bool
    request: MessageCodec
    response: MessageCodec


_SPOKEN: dict[tuple[int, int], Spoken] = {}
"""(API key, version) -> codecs, of the versions used so far."""


@dataclass(slots=True)
class Request:
    """A parsed request. `body` is the API's request class; None only for ApiVersions in an unknown version,
    whose response is sent in version 0."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    elements: int = 0
    """Number of elements of all arrays and tagged fields together."""
    size_bytes: int = 0
    """Size of header and body, if the reader of the frame has set it."""
    end_at: int = 0
    """End of the body in the frame, if it was parsed."""


class CachedResponse:
    """A response without records that is sent repeatedly: the bytes of its body are cached by version."""

    __slots__ = ()
    written: dict[int, bytes]


class UnspokenError(Exception):
    """The codec of this API version has not been made yet: call `learn` in another thread, then parse the frame again."""


def learn(frame: memoryview) -> None:
    """Load the messages and make the codec for a frame for which `parse_request` has raised UnspokenError.

    In any thread; takes up to 30 ms.
    """
    api_key, version = _KEY_AND_VERSION.unpack_from(frame)
    _spoken(APIS[api_key], version)


def parse_request(frame: memoryview, most_elements: int = REQUEST_ELEMENTS_MAX, *, at_once: bool = False) -> Request:
    """Parse one frame (without its size) as a request.

    Raises UnspokenError, if `at_once`, when the codec has to be made first.

    Raises LargeMessageError, which is a ProtocolError, as soon as the message has more than `most_elements`.

    Raises ProtocolError for an unsupported API or version and for bytes that are not the message; the connection is then
    closed, as in Kafka. ApiVersions is the exception (KIP-511): in an unknown version only its header is parsed, so that the
    client gets a response with the supported versions.
    """
    api_key, version, correlation_id, client_id, at = read_request_header(frame)
    api = APIS.get(api_key)
    if api is None:
        raise ProtocolError(f"unknown API key {api_key} (version {version}, client {client_id!r})")
    spoken = _SPOKEN.get((api_key, version))
    if spoken is None:
        if not api.speaks(version):
            if api_key == API_VERSIONS_KEY:
                return Request(api, version, correlation_id, client_id, None)
            raise ProtocolError(
                f"{api.name} version {version} is not supported, only {api.versions[0]} to {api.versions[1]} (client {client_id!r})"
            )
        if at_once:
            raise UnspokenError
        spoken = _spoken(api, version)
    if spoken.is_flexible:
        at = at + 1 if at < len(frame) and not frame[at] else skip_tags(frame, at)  # nearly always no tags
    # Bytes after the body are ignored, as in Apache Kafka: librdkafka 2.16 sends three additional zero bytes when it
    # requests the metadata of all topics.
    body, end_at, left = spoken.request.read_within(frame, at, most_elements)
    return Request(api, version, correlation_id, client_id, body, most_elements - left, end_at=end_at)


def encode_response(
    request: Request, body: Any, most_elements: int = NO_LIMIT, most_bytes: int = NO_LIMIT
) -> list[Any]:
    """Encode a response frame; returns its parts, size first, to be sent in order.

    Encoded parts are bytearrays; records are the same objects as in `body` (bytes-like, or slices of files).
    `body` may be None for an unknown ApiVersions version: Kafka's response to it is made here.

    Raises LargeMessageError for more than `most_elements`, or much more than `most_bytes` in addition to the records.
    """
    api, version = request.api, request.version
    if request.body is None and api.key == API_VERSIONS_KEY:
        version = 0
        body = _unsupported_api_versions() if body is None else body
    spoken = _SPOKEN.get((api.key, version)) or _spoken(api, version)
    head = bytearray(8)
    parts: Parts = [head]
    if spoken.has_flexible_response_header:
        head.append(0)
    kept = body.written if isinstance(body, CachedResponse) else None
    if kept is not None and version in kept:
        head += kept[version]
    else:
        header_bytes = len(head)
        spoken.response.write(body, parts, most_elements, most_bytes)
        if kept is not None:
            kept[version] = bytes(head[header_bytes:])
    if len(parts) == 1:
        size = len(head)
    else:
        if not parts[-1]:  # the message ends with records
            parts.pop()
        size = sum(map(len, parts))
    _SIZE_AND_CORRELATION_ID.pack_into(head, 0, size - 4, request.correlation_id)
    return parts


def _spoken(api: Api, version: int) -> Spoken:
    flexible = api.is_flexible(version)
    spoken = Spoken(
        flexible,
        api.has_flexible_response_header(version),
        codec(api.request, version, flexible),
        codec(api.response, version, flexible),
    )
    _ = spoken.request.read_within, spoken.response.write
    _SPOKEN[api.key, version] = spoken  # last: a request that finds it here waits for no codec
    return spoken


@cache
def _unsupported_api_versions() -> Any:
    """Return the response to an ApiVersions request of an unknown version: UNSUPPORTED_VERSION, and the known versions."""
    from .messages.api_versions import ApiVersion, ApiVersionsResponse

    low, high = APIS[API_VERSIONS_KEY].advertised
    row = ApiVersion(api_key=API_VERSIONS_KEY, min_version=low, max_version=high)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(row,))


# --- the client's side, for tests and compatibility suites -----------------------------------------------------------


def encode_request(api: Api, version: int, correlation_id: int, client_id: str | None, body: Any) -> bytes:
    """Encode a whole request frame, size included. `body`'s records must be bytes-like."""
    flexible = api.is_flexible(version)
    parts: Parts = [bytearray(request_header(api.key, version, correlation_id, client_id, flexible))]
    codec(api.request, version, flexible).write(body, parts)
    frame = b"".join(parts)
    return _SIZE.pack(len(frame)) + frame


def parse_response(api: Api, version: int, frame: memoryview | bytes) -> tuple[int, Any]:
    """Parse a response frame without its size; returns (correlation ID, body). ProtocolError, also for bytes left over."""
    view = memoryview(frame)
    correlation_id, at = read_response_header(view, api.has_flexible_response_header(version))
    body, at = codec(api.response, version, api.is_flexible(version)).read(view, at)
    if at != len(view):
        raise ProtocolError(f"{api.name} version {version}: {len(view) - at} unexpected bytes after the response")
    return correlation_id, body
