"""AddOffsetsToTxn, API key 25, versions 0-4.

Behaviour
- Puts the group's partition of `__consumer_offsets` into the transaction; that topic is created on first need.
- PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...storage.disk.paths import TopicPartition
from ..coordination.records import Producer
from ..partitions.internal_topics import OFFSETS_TOPIC
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.metadata import code_for
from .permissions import check

_FIRST_VERSION_WITH_FENCED = 2


async def handle(ctx: Context, request: Request) -> AddOffsetsToTxnResponse:
    body: AddOffsetsToTxnRequest = request.body
    services = ctx.services
    try:
        check(ctx, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        transactions = services.coordinators.transactions
        shard = await transactions.route(ctx.node, body.transactional_id)
        await services.coordinators.groups.ensure_topic()
        partition = TopicPartition(OFFSETS_TOPIC, services.coordinators.groups.coordinator.partition_for(body.group_id))
        producer = Producer(body.producer_id, body.producer_epoch)
        transactions.coordinator.add_partitions(
            shard, body.transactional_id, producer, [partition], 0, services.clock.now_ms()
        )
        await transactions.settle(shard)
    except KafkaError as error:
        code = code_for(error, request.version, knows_fenced_since=_FIRST_VERSION_WITH_FENCED)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
