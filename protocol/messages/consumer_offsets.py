"""Records of the internal topic `__consumer_offsets`: keys and values as Kafka's group coordinator writes them.

Each key and each value starts with an int16. In a key it is the type of the record (0 and 1 a committed offset, 2 a
group's metadata); in a value it is the version of the schema.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bytes, Int32, Int64, String, Uuid, since, tag, until


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, since(1), until(1)] = -1
    topic_id: Annotated[Uuid, since(4), tag(0)] = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    group: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: tuple[MemberMetadata, ...] = ()
