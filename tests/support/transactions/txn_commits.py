"""Offsets committed in a transaction, and its end, with the arguments that rarely matter left out."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from ottla.server.groups.offset_commits import TopicCommit
from ottla.server.groups.offset_table import Place
from ottla.storage.produce.txn_markers import build_marker
from support.groups.groups import TOPIC_IDS, Groups

ALICE, BOB = 7, 8
"""Producer ids."""


def commit_in_transaction(
    groups: Groups,
    offsets: dict[Place, int],
    *,
    producer: int = ALICE,
    epoch: int = 0,
    group: str = "g",
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    version: int = 3,
) -> dict[Place, ErrorCode]:
    """Send TxnOffsetCommit, whose transaction the coordinator knows; return the refused partitions."""
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer,
        producer_epoch=epoch,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
    )
    topics = [
        TopicCommit(
            topic,
            groups.topics.id_of(topic) or TOPIC_IDS[topic],
            [
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=5,
                    committed_metadata=metadata,
                )
            ],
        )
        for (topic, index), offset in offsets.items()
    ]
    return groups.commit_in_transaction(request, version, topics, groups.now_ms)


def end_transaction(groups: Groups, *, commit: bool, producer: int = ALICE, group: str = "g") -> None:
    """Write the transaction's marker, and notify the coordinator."""
    shard = groups.coordinator.partition_for(group)
    marker = build_marker(
        producer_id=producer, producer_epoch=0, coordinator_epoch=0, commit=commit, now_ms=groups.now_ms
    )
    groups.store.append_batch(shard, marker)
    groups.coordinator.transaction_ended(shard, producer, commit=commit)
