"""Which APIs are served: API key -> handler.

Each API has a file here, named like its messages file, with one function that answers it, and no other does:
`handle(ctx: Context, request: Request)`. It returns the answer, or a coroutine that makes it where that may have to wait
(`network.desk.Handler`): an `async def` always does, so only APIs with many small requests are plain functions (heartbeats: see
`coordinating`). A handler and its messages load when the API is first spoken, in a thread, so a broker starts without making
thirty APIs' classes; `serve` has most of them loaded soon after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import trio

from ...protocol.apis import API_VERSIONS_KEY, APIS, Api, snake_case
from ...protocol.connection import Request
from ...protocol.errors import ProtocolError
from ...protocol.wire import codec
from ..config.emulation import Release

Handler: TypeAlias = Callable[[Any, Request], Any]

SERVED = frozenset(
    {
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "ApiVersions",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DeleteTopics",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "EndTxn",
        "ExpireDelegationToken",
        "Fetch",
        "FindCoordinator",
        "GetTelemetrySubscriptions",
        "Heartbeat",
        "IncrementalAlterConfigs",
        "InitProducerId",
        "InitializeShareGroupState",
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
        "PushTelemetry",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "SyncGroup",
        "TxnOffsetCommit",
        "UnregisterBroker",
        "UpdateFeatures",
        "WriteShareGroupState",
        "WriteTxnMarkers",
    }
)

OF_CONTROLLERS = frozenset(
    {
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "ApiVersions",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "DescribeAcls",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeQuorum",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)
"""Which APIs are answered at a controller's listener: those of Apache Kafka's that are for clients and tools, not for brokers
and other controllers."""

SELDOM = frozenset(
    {
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "DeleteAcls",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "ExpireDelegationToken",
        "GetTelemetrySubscriptions",
        "InitializeShareGroupState",
        "ListPartitionReassignments",
        "PushTelemetry",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "UnregisterBroker",
        "UpdateFeatures",
        "WriteShareGroupState",
        "WriteTxnMarkers",
    }
)
"""Which APIs are not loaded ahead: most brokers are never asked, and would keep two megabytes for them."""

COORDINATED = {
    "groups": frozenset(
        {
            "AddOffsetsToTxn",
            "AlterShareGroupOffsets",
            "ConsumerGroupDescribe",
            "ConsumerGroupHeartbeat",
            "DeleteGroups",
            "DeleteShareGroupOffsets",
            "DescribeGroups",
            "DescribeShareGroupOffsets",
            "FindCoordinator",
            "Heartbeat",
            "JoinGroup",
            "LeaveGroup",
            "ListGroups",
            "OffsetCommit",
            "OffsetDelete",
            "OffsetFetch",
            "ShareGroupDescribe",
            "ShareGroupHeartbeat",
            "StreamsGroupDescribe",
            "StreamsGroupHeartbeat",
            "SyncGroup",
            "TxnOffsetCommit",
        }
    ),
    "transactions": frozenset(
        {
            "AddOffsetsToTxn",
            "AddPartitionsToTxn",
            "DescribeTransactions",
            "EndTxn",
            "FindCoordinator",
            "ListTransactions",
            "TxnOffsetCommit",
        }
    ),
}
"""Which APIs ask for a coordinator: it is loaded with their handlers. Not those that mostly need none, InitProducerId and
Produce: a client with transactions begins with FindCoordinator."""

LAYERS = ("faults", "quotas")
"""Who may stand between connections and handlers, the innermost first."""

_LOADED: set[int] = set()
"""The keys of APIs whose modules are there, for all brokers of the process: one that is just being imported would be waited for."""


class Handlers(dict[int, Handler]):
    """The handlers loaded so far; a missing key loads its handler, or is a KeyError for an API not in SERVED.

    Args:
        release: The one that is emulated: what it does not have is not served either.
        unstable: Whether versions that Apache Kafka has not released are served; an emulated release has none.
    """

    def __init__(self, release: Release | None = None, *, unstable: bool = False) -> None:
        super().__init__()
        self._release = release
        self._unstable = unstable
        self._own: dict[int, Handler] = {}
        """By key, whatever is asked in their stead."""
        self._instead: dict[str, Mapping[int, Callable[[Handler], Handler]]] = {}
        """By layer, of LAYERS."""
        self._loading: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        """By key: a thousand connections may begin with the same API, and nobody waits for what others begin with."""

    def __missing__(self, key: int) -> Handler:
        api = APIS[key]
        release = self._release
        if api.name not in SERVED or (release is not None and release.advertised(key) is None):
            raise KeyError(key)
        handler = _handler(api)
        if release is not None:
            handler = _as_of(release, handler)
        elif api.unstable is not None and not self._unstable:
            handler = _without(api.unstable, handler)
        self._own[key] = handler
        self._put(key)
        return self[key]

    def interpose(self, layer: str, instead: Mapping[int, Callable[[Handler], Handler]]) -> None:
        """Have others asked in their stead, which are made of them, for these APIs; for all others they themselves.

        `layer` is one of LAYERS, each of which has its own others; what it had before is gone.
        Holds from the next request on, of connections that are open, too.
        """
        self._instead[layer] = instead
        for key in self._own:
            self._put(key)

    def _put(self, key: int) -> None:
        handler = self._own[key]
        for layer in LAYERS:
            instead = self._instead.get(layer, {})
            if key in instead:
                handler = instead[key](handler)
        self[key] = handler

    async def loaded(self, key: int) -> Handler:
        """`self[key]`, loaded in a thread if it has to be: the first request of groups would keep others for a tenth of a second.

        Raises:
            KeyError: The API is not in SERVED.
        """
        api = APIS[key]
        async with self._loading[key]:
            if api.name in SERVED and key not in _LOADED:
                with suppress(RuntimeError):  # no thread can be had
                    await trio.to_thread.run_sync(load, key)
        return self[key]

    @staticmethod
    def keys_ahead() -> list[int]:
        """Those of the APIs that are worth loading before somebody asks."""
        return sorted(key for key in Handlers.keys_served() if APIS[key].name not in SELDOM)

    @staticmethod
    def keys_served() -> frozenset[int]:
        """The API keys that are served, loaded or not."""
        return frozenset(key for key, api in APIS.items() if api.name in SERVED)


@cache
def controller_keys() -> frozenset[int]:
    """The API keys of OF_CONTROLLERS, as far as there are such APIs."""
    return frozenset(key for key, api in APIS.items() if api.name in OF_CONTROLLERS)


def _as_of(release: Release, handler: Handler) -> Handler:
    """The handler, which ends a connection that brings a version that the release does not have, as that release does."""

    def handle(ctx: Any, request: Request) -> Any:
        key = request.api.key
        if not release.speaks(key, request.version):
            if key != API_VERSIONS_KEY:
                raise ProtocolError(
                    f"{request.api.name} version {request.version}: Apache Kafka {release.name}, which is emulated, has"
                    f" {release.advertised(key)} (client {request.client_id!r})"
                )
            request.body = None  # answered in version 0, with UNSUPPORTED_VERSION
        return handler(ctx, request)

    return handle


def _without(unstable: int, handler: Handler) -> Handler:
    """The handler, which ends a connection that brings the unstable version, as one that brings a version unheard of."""

    def handle(ctx: Any, request: Request) -> Any:
        if request.version == unstable:
            raise ProtocolError(
                f"{request.api.name} version {unstable} is unstable: served with unstable.api.versions.enable alone (client"
                f" {request.client_id!r})"
            )
        return handler(ctx, request)

    return handle


def load(key: int) -> None:
    """Do, in any thread, what the first request of an API would wait for: 5 to 20 ms, in its newest version; where it asks for
    a coordinator, a tenth of a second."""
    api = APIS[key]
    version = api.versions[1]
    for whose, asking in COORDINATED.items():
        if api.name in asking:
            import_module(f"..{whose}.service", __package__)
    _module(api)
    _ = codec(api.request, version, api.is_flexible(version)).read_within
    _ = codec(api.response, version, api.is_flexible(version)).write


def _handler(api: Api) -> Handler:
    """As clients are served: who may not send such requests at all does not come to it."""
    from .permissions import guarded  # as late as the handlers

    return guarded(api, _module(api))


def _module(api: Api) -> ModuleType:
    module = import_module(f".{snake_case(api.name)}", __package__)
    _LOADED.add(api.key)
    return module
