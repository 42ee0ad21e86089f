"""The blobs of classic consumers that the broker must decode or encode: subscriptions and assignments.

The broker needs them for two purposes: to protect the offsets of topics in use from expiry and deletion, and for members of
both protocols in one group (KIP-848). Each blob begins with a version. A newer version than those known is read as the newest
known one, as later versions only add fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import Any

from ...protocol.errors import ProtocolError
from ...protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ...protocol.wire import codec
from ..coordination.jobs import Steps

CONSUMER_PROTOCOL_TYPE = "consumer"

# Maximum number of names that one piece, or one request, reads from these blobs: a name takes half a microsecond.
NAMES_MAX = 10_000
LISTS_KNOWN_MAX = 4
"""Maximum number of topic lists that are kept for comparison with those of the next members."""

_VERSION = Struct(">h")
_LENGTH = Struct(">i")
_NEWEST_VERSION = 3


def subscribed_topics(metadata: Iterable[bytes]) -> Steps[frozenset[str] | None]:
    """Return the topics of all members together. Return None if any member's metadata does not have this format, or if they
    name more than NAMES_MAX topics; equal lists count once.

    A blob is read in one piece, and a blob of a megabyte may name half a million topics.
    """
    topics: set[str] = set()
    known: list[bytes] = []
    left = NAMES_MAX
    for blob in set(metadata):  # most groups have one kind of member
        yield
        try:
            _version_of(blob)
            # Metadata with owned partitions differs between members, but not in the topics, which come first.
            if any(blob.startswith(names, _VERSION.size) for names in known):
                continue
            # No later version moves the fields of the first.
            read_within = codec(ConsumerProtocolSubscription, 0, False).read_within
            subscription, end, left = read_within(memoryview(blob), _VERSION.size, left - 1)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
        if len(known) < LISTS_KNOWN_MAX:
            known.append(blob[_VERSION.size : end - _LENGTH.size - len(subscription.user_data or b"")])
    return frozenset(topics)


def read_subscription(blob: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. Raises ProtocolError if the blob has another format, or names more than NAMES_MAX topics
    and partitions."""
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, blob)
    return subscription


def read_assignment(blob: bytes) -> ConsumerProtocolAssignment:
    """Decode a leader's assignment to a member; an empty blob has none. Raises ProtocolError as `read_subscription`."""
    if not blob:
        return ConsumerProtocolAssignment()
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, blob)
    return assignment


def write_assignment(subscription: bytes, partitions: Mapping[str, Collection[int]]) -> bytes:
    """Encode a member's assignment, in the version in which the member has sent its `subscription`.

    Raises:
        ProtocolError: `subscription` has another format.
    """
    version = min(_version_of(subscription), _NEWEST_VERSION)
    blob = bytearray(_VERSION.pack(version))
    message = ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            TopicPartition(topic=topic, partitions=tuple(sorted(indexes)))
            for topic, indexes in sorted(partitions.items())
        )
    )
    codec(ConsumerProtocolAssignment, version, False).write(message, [blob])
    return bytes(blob)


def _version_of(blob: bytes) -> int:
    version: int = _VERSION.unpack_from(blob)[0] if len(blob) >= _VERSION.size else -1
    if version < 0:
        raise ProtocolError(f"unsupported version {version} of the consumer protocol")
    return version


def _read(cls: type[Any], blob: bytes) -> Any:
    read_within = codec(cls, min(_version_of(blob), _NEWEST_VERSION), False).read_within
    return read_within(memoryview(blob), _VERSION.size, NAMES_MAX)[0]
