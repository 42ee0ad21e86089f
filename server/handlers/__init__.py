"""Which APIs are served: API key -> handler.

Each API has a file here, named like its messages file, with one function
`async def handle(ctx: Context, request: Request) -> Response | None` (None sends nothing). A handler and its
messages load when the API is first spoken, so a broker starts without making thirty APIs' classes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, TypeAlias

from ...protocol.apis import APIS, snake_case
from ...protocol.connection import Request

Handler: TypeAlias = Callable[[Any, Request], Awaitable[Any]]

SERVED = frozenset(
    {
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "ApiVersions",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "CreatePartitions",
        "CreateTopics",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteTopics",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "ElectLeaders",
        "EndTxn",
        "Fetch",
        "FindCoordinator",
        "Heartbeat",
        "IncrementalAlterConfigs",
        "InitProducerId",
        "JoinGroup",
        "LeaveGroup",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListPartitionReassignments",
        "ListTransactions",
        "Metadata",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "Produce",
        "SyncGroup",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
    }
)


class Handlers(dict[int, Handler]):
    """The handlers loaded so far; a missing key loads its handler, or is a KeyError for an API not in SERVED."""

    def __missing__(self, key: int) -> Handler:
        api = APIS[key]
        if api.name not in SERVED:
            raise KeyError(key)
        handler: Handler = import_module(f".{snake_case(api.name)}", __package__).handle
        self[key] = handler
        return handler

    @staticmethod
    def keys_served() -> frozenset[int]:
        """The API keys that are served, loaded or not."""
        return frozenset(key for key, api in APIS.items() if api.name in SERVED)
