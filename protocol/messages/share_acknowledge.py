"""ShareAcknowledge (key 79, versions 1–2): report the outcome of acquired records (KIP-932).

2 adds renewals of acquisition locks (KIP-1222).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int16, Int32, String, Uuid, since
from .share_fetch import AcknowledgementBatch, NodeEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgePartition:
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeTopic:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeRequest:
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[AcknowledgeTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
