"""The blobs that classic consumers bring along and take away, where the broker has to look into them.

It does so only to learn which topics are in use, so that their offsets neither expire nor can be deleted, and for
members of both protocols in one group (KIP-848). Each blob begins with a version; one that is newer than those known is
read as the newest of them, as later versions only add fields.
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

# What one turn, or one request, may read of these blobs: a name takes half a microsecond.
NAMES_MAX = 10_000
LISTS_KNOWN_MAX = 4
"""Lists of topics that are compared with those of the next member."""

_VERSION = Struct(">h")
_LENGTH = Struct(">i")
_NEWEST_VERSION = 3


def subscribed_topics(metadata: Iterable[bytes]) -> Steps[frozenset[str] | None]:
    """The topics of all members together; None if any member's metadata is not of that format, or if all of them name more
    than NAMES_MAX, where lists that are the same count once.

    One is read in one turn, and a blob of a megabyte may name half a million topics.
    """
    topics: set[str] = set()
    known: list[bytes] = []
    left = NAMES_MAX
    for blob in set(metadata):  # most groups have one kind of member
        yield
        try:
            _version_of(blob)
            # Members that tell what they own differ, but not in the topics, which come first.
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
    """What a member subscribes to. ProtocolError if the blob is something else, or names more than NAMES_MAX topics and
    partitions."""
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, blob)
    return subscription


def read_assignment(blob: bytes) -> ConsumerProtocolAssignment:
    """What a leader gave a member; nothing if the blob is empty. ProtocolError as for `read_subscription`."""
    if not blob:
        return ConsumerProtocolAssignment()
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, blob)
    return assignment


def write_assignment(subscription: bytes, partitions: Mapping[str, Collection[int]]) -> bytes:
    """What a member takes away, in the version in which it has sent its `subscription`.

    Raises:
        ProtocolError: That is something else.
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
