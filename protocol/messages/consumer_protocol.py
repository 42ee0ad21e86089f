"""The blobs that classic consumers exchange through JoinGroup and SyncGroup (versions 0–3).

The broker passes them on unread, except to learn which topics a group subscribes to. Each blob starts with an int16
version; a reader takes a higher version than it knows as its highest one (later versions only add fields).
1 adds the partitions owned so far (KIP-429), 2 the generation they are from, 3 the member's rack (KIP-881).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bytes, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSubscription:
    topics: tuple[String, ...] = ()
    user_data: Bytes | None = None
    owned_partitions: Annotated[tuple[TopicPartition, ...], since(1)] = ()
    generation_id: Annotated[Int32, since(2)] = -1
    rack_id: Annotated[String | None, since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartition, ...] = ()
    user_data: Bytes | None = None
