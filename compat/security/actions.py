"""The actions of the clients, and the ACLs that each needs at Apache Kafka.

An action's arguments `topic`, `group` and `transactional_id` are names of its own cell. The items in `scene` exist
before: a topic of two partitions with one record in the first, a group with a committed offset for that topic, a
transactional id with which a producer was registered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .rights import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Need

T, G, X = "topic", "group", "transactional_id"


@dataclass(frozen=True)
class Action:
    """One row.

    needs: All rights that it takes; a user with these alone may.
    uses: Arguments that are names of the cell.
    scene: Which of these are there before.
    more: Further arguments.
    """

    name: str
    what: str
    needs: tuple[Need, ...]
    uses: tuple[str, ...] = ()
    scene: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)

    def arguments(self, name: str) -> dict[str, Any]:
        return {use: name for use in self.uses} | self.more


def _topic(*operations: str) -> tuple[Need, ...]:
    return tuple(Need(operation, TOPIC) for operation in operations)


def _group(*operations: str) -> tuple[Need, ...]:
    return tuple(Need(operation, GROUP) for operation in operations)


def _cluster(operation: str) -> tuple[Need, ...]:
    return (Need(operation, CLUSTER),)


def _transactional_id(operation: str) -> tuple[Need, ...]:
    return (Need(operation, TRANSACTIONAL_ID),)


READS_OF_GROUP = _topic("READ") + _group("READ")

TABLE = (
    Action("metadata", "the topic's partitions are asked for by name", _topic("DESCRIBE"), (T,), (T,)),
    Action(
        "produce",
        "a record, acks=1, without idempotence; acknowledged",
        _topic("WRITE"),
        (T,),
        (T,),
    ),
    Action("produce_acks_all", "a record, acks=all, without idempotence", _topic("WRITE"), (T,), (T,)),
    Action("produce_idempotent", "a record with an idempotent producer", _topic("WRITE"), (T,), (T,)),
    Action(
        "produce_creating",
        "a record, acks=1, to a topic that is not there: it is made by asking for it",
        _topic("CREATE", "WRITE"),
        (T,),
    ),
    Action(
        "init_transactions",
        "a transactional producer registers",
        _transactional_id("WRITE"),
        (X,),
    ),
    Action(
        "produce_transactional",
        "a record in a transaction, which is committed",
        _topic("WRITE") + _transactional_id("WRITE"),
        (T, X),
        (T,),
    ),
    Action(
        "abort_transactional",
        "a record in a transaction, flushed, which is then aborted",
        _topic("WRITE") + _transactional_id("WRITE"),
        (T, X),
        (T,),
    ),
    Action(
        "send_offsets",
        "offset 1 of partition 0 of the topic, committed for the group in a transaction",
        _group("READ") + _topic("READ") + _transactional_id("WRITE"),
        (T, G, X),
        (T,),
    ),
    Action(
        "consume",
        "partition 0 assigned, the one record polled from offset 0, without a group",
        _topic("READ"),
        (T,),
        (T,),
    ),
    Action("end_offsets", "the end offset of partition 0", _topic("DESCRIBE"), (T,), (T,)),
    Action(
        "offsets_for_times",
        "the offset of the first record since time 0 of partition 0",
        _topic("DESCRIBE"),
        (T,),
        (T,),
    ),
    Action(
        "consume_in_group",
        "subscribed with the classic protocol, auto.offset.reset=earliest, one record polled, committed, left",
        READS_OF_GROUP,
        (T, G),
        (T,),
    ),
    Action(
        "consume_in_group_consumer_protocol",
        "the same with group.protocol=consumer",
        READS_OF_GROUP,
        (T, G),
        (T,),
    ),
    Action(
        "commit",
        "offset 1 of partition 0 committed for the group, without being a member",
        READS_OF_GROUP,
        (T, G),
        (T,),
    ),
    Action(
        "committed",
        "a consumer of the group, partition 0 assigned, asks for its committed offset",
        _group("DESCRIBE") + _topic("DESCRIBE"),
        (T, G),
        (T, G),
    ),
    # -- topics
    Action("create_topics", "a topic of one partition", _topic("CREATE"), (T,)),
    Action("create_topics_by_cluster", "the same, by a right to the cluster", _cluster("CREATE"), (T,)),
    Action("create_topics_validate_only", "validate_only", _topic("CREATE"), (T,)),
    Action("create_partitions", "the topic is to have three partitions", _topic("ALTER"), (T,), (T,)),
    Action("delete_topics", "by name", _topic("DELETE"), (T,), (T,)),
    Action("delete_records", "before offset 1 of partition 0", _topic("DELETE"), (T,), (T,)),
    Action("describe_topics", "the admin client's description of one topic", _topic("DESCRIBE"), (T,), (T,)),
    Action("list_topics", "all topics: what may not be seen is not among them", ()),
    Action("list_offsets", "the admin client's latest offset of partition 0", _topic("DESCRIBE"), (T,), (T,)),
    Action("describe_producers", "of partition 0", _topic("READ"), (T,), (T,)),
    Action("elect_leaders", "preferred, partition 0", _cluster("ALTER"), (T,), (T,)),
    Action("alter_partition_reassignments", "partition 0 to [0]", _cluster("ALTER"), (T,), (T,)),
    Action("list_partition_reassignments", "of all partitions", _cluster("DESCRIBE")),
    # -- configs
    Action("describe_configs", "of the topic", _topic("DESCRIBE_CONFIGS"), (T,), (T,)),
    Action("describe_broker_configs", "of broker 0", _cluster("DESCRIBE_CONFIGS")),
    Action("describe_group_configs", "of the group", _group("DESCRIBE_CONFIGS"), (G,)),
    Action(
        "alter_configs",
        "incremental: retention.ms of the topic set to 1000000",
        _topic("ALTER_CONFIGS"),
        (T,),
        (T,),
    ),
    Action(
        "alter_configs_whole",
        "AlterConfigs, not incremental: retention.ms of the topic set to 1000000, all else reset",
        _topic("ALTER_CONFIGS"),
        (T,),
        (T,),
    ),
    Action(
        "alter_broker_configs",
        "incremental: log.cleaner.threads of broker 0 set to 1",
        _cluster("ALTER_CONFIGS"),
    ),
    Action(
        "alter_group_configs",
        "incremental: consumer.session.timeout.ms of the group set to 45000",
        _group("ALTER_CONFIGS"),
        (G,),
    ),
    Action("list_config_resources", "of all types", _cluster("DESCRIBE_CONFIGS")),
    # -- groups
    Action("list_groups", "all groups: what may not be seen is not among them", ()),
    Action("describe_groups", "the group, as a classic one", _group("DESCRIBE"), (G,), (T, G)),
    Action("delete_groups", "the group", _group("DELETE"), (G,), (T, G)),
    Action(
        "list_group_offsets",
        "committed offsets of partition 0 for the group",
        _group("DESCRIBE") + _topic("DESCRIBE"),
        (T, G),
        (T, G),
    ),
    Action("alter_group_offsets", "offset 0 of partition 0 for the group", READS_OF_GROUP, (T, G), (T, G)),
    Action(
        "delete_group_offsets",
        "of partition 0 for the group",
        _group("DELETE") + _topic("READ"),
        (T, G),
        (T, G),
    ),
    Action("remove_group_members", "all members; or the static member `nobody`", _group("READ"), (G,), (T, G)),
    # -- transactions
    Action(
        "describe_transactions",
        "the transactional id",
        _transactional_id("DESCRIBE"),
        (X,),
        (X,),
    ),
    Action("list_transactions", "all: what may not be seen is not among them", ()),
    Action("fence_producers", "of the transactional id", _transactional_id("WRITE"), (X,), (X,)),
    Action(
        "abort_hanging_transaction",
        "AbortTransactionSpec for partition 0: producer 1234, epoch 0, coordinator epoch 0",
        _cluster("ALTER") + _topic("READ"),
        (T,),
        (T,),
    ),
    # -- the cluster
    Action("describe_cluster", "without authorized operations", ()),
    Action("describe_features", "supported and finalized", ()),
    Action("update_features", "metadata.version downgraded, safely, to level 0; validate_only", _cluster("ALTER")),
    Action("describe_metadata_quorum", "", _cluster("DESCRIBE")),
    Action("unregister_broker", "broker 77, which is none", _cluster("ALTER")),
    Action("describe_log_dirs", "of broker 0", _cluster("DESCRIBE")),
    Action(
        "alter_replica_log_dirs",
        "partition 0 of the topic at broker 0 to /no/such/directory",
        _cluster("ALTER"),
        (T,),
        (T,),
    ),
    # -- security and quotas
    Action("create_acls", "User:nobody may READ the literal topic `none` from *", _cluster("ALTER")),
    Action("describe_acls", "every entry for the literal topic `none`", _cluster("DESCRIBE")),
    Action("delete_acls", "every entry for the literal topic `none`, principal User:nobody-else", _cluster("ALTER")),
    Action("describe_scram_users", "all users", _cluster("DESCRIBE")),
    Action(
        "alter_scram_users",
        "SCRAM-SHA-256 of user `made` set: 4096 iterations, password `secret`",
        _cluster("ALTER"),
    ),
    Action("describe_client_quotas", "all", _cluster("DESCRIBE_CONFIGS")),
    Action(
        "alter_client_quotas",
        "producer_byte_rate of client id `nobody` set to 1000000",
        _cluster("ALTER_CONFIGS"),
    ),
    Action("create_delegation_token", "for oneself, no renewers, the broker's life time", ()),
    Action("describe_delegation_tokens", "all", ()),
    Action("renew_delegation_token", "with an HMAC of 64 zero bytes", ()),
    Action("expire_delegation_token", "with an HMAC of 64 zero bytes", ()),
)
ACTIONS = {action.name: action for action in TABLE}
