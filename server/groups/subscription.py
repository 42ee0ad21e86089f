"""Which topics the members of a consumer group subscribe to, read from the metadata that they bring along.

The coordinator passes that metadata on unread to the leader; it looks into it only so that offsets of topics in use
neither expire nor can be deleted. Only the fields of version 0 are read, which no later version moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ...protocol.errors import ProtocolError
from ...protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ...protocol.wire import codec

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")
_SUBSCRIPTION = codec(ConsumerProtocolSubscription, 0, False)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members together; None if any member's metadata is not of that format."""
    topics: set[str] = set()
    for blob in metadata:
        if len(blob) < _VERSION.size or _VERSION.unpack_from(blob)[0] < 0:
            return None
        try:
            subscription, _ = _SUBSCRIPTION.read(memoryview(blob), _VERSION.size)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
