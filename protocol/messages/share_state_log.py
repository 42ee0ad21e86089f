"""Records of `__share_group_state` (KIP-932), one class for each key and each value.

A key begins with its type (`RECORD_TYPES`), a value with its version, which is 0 for both; values are in flexible encoding.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int32, Int64, String, Uuid, tag
from .write_share_group_state import StateBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshotKey:
    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshotValue:
    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdateKey:
    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdateValue:
    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    state_batches: tuple[StateBatch, ...] = ()


RECORD_TYPES = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
"""Key type -> classes of key and value."""
