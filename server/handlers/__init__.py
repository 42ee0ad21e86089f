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
from enum import Flag, auto
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


class Trait(Flag):
    """What is not so of each API."""

    CONTROLLER = auto()
    """It is answered at a controller's listener, too: those of Apache Kafka's that are for clients and tools, not for brokers and other
    controllers."""
    SELDOM = auto()
    """It is not loaded ahead: most brokers are never asked, and would keep two megabytes for all of these."""
    GROUPS = auto()
    """It asks for the coordinator of groups, which is loaded with its handler."""
    TRANSACTIONS = auto()
    """Likewise, of transactions. Not InitProducerId and Produce, which mostly need none: a client with transactions begins with
    FindCoordinator."""


_CONTROLLER, _SELDOM, _GROUPS, _TRANSACTIONS = Trait
TRAITS = {
    "AddOffsetsToTxn": _GROUPS | _TRANSACTIONS,
    "AddPartitionsToTxn": _TRANSACTIONS,
    "AddRaftVoter": _CONTROLLER | _SELDOM,
    "AlterClientQuotas": _CONTROLLER | _SELDOM,
    "AlterConfigs": _CONTROLLER,
    "AlterPartitionReassignments": _CONTROLLER | _SELDOM,
    "AlterReplicaLogDirs": _SELDOM,
    "AlterShareGroupOffsets": _SELDOM | _GROUPS,
    "AlterUserScramCredentials": _CONTROLLER | _SELDOM,
    "ApiVersions": _CONTROLLER,
    "ConsumerGroupDescribe": _GROUPS,
    "ConsumerGroupHeartbeat": _GROUPS,
    "CreateAcls": _CONTROLLER | _SELDOM,
    "CreateDelegationToken": _CONTROLLER | _SELDOM,
    "CreatePartitions": _CONTROLLER,
    "CreateTopics": _CONTROLLER,
    "DeleteAcls": _CONTROLLER | _SELDOM,
    "DeleteGroups": _GROUPS,
    "DeleteShareGroupOffsets": _SELDOM | _GROUPS,
    "DeleteShareGroupState": _SELDOM,
    "DeleteTopics": _CONTROLLER,
    "DescribeAcls": _CONTROLLER | _SELDOM,
    "DescribeClientQuotas": _SELDOM,
    "DescribeCluster": _CONTROLLER,
    "DescribeConfigs": _CONTROLLER,
    "DescribeDelegationToken": _CONTROLLER | _SELDOM,
    "DescribeGroups": _GROUPS,
    "DescribeQuorum": _CONTROLLER | _SELDOM,
    "DescribeShareGroupOffsets": _SELDOM | _GROUPS,
    "DescribeTransactions": _TRANSACTIONS,
    "DescribeUserScramCredentials": _CONTROLLER | _SELDOM,
    "ElectLeaders": _CONTROLLER | _SELDOM,
    "EndTxn": _TRANSACTIONS,
    "ExpireDelegationToken": _CONTROLLER | _SELDOM,
    "FindCoordinator": _GROUPS | _TRANSACTIONS,
    "GetTelemetrySubscriptions": _SELDOM,
    "Heartbeat": _GROUPS,
    "IncrementalAlterConfigs": _CONTROLLER,
    "InitializeShareGroupState": _SELDOM,
    "JoinGroup": _GROUPS,
    "LeaveGroup": _GROUPS,
    "ListGroups": _GROUPS,
    "ListPartitionReassignments": _CONTROLLER | _SELDOM,
    "ListTransactions": _TRANSACTIONS,
    "OffsetCommit": _GROUPS,
    "OffsetDelete": _GROUPS,
    "OffsetFetch": _GROUPS,
    "PushTelemetry": _SELDOM,
    "ReadShareGroupState": _SELDOM,
    "ReadShareGroupStateSummary": _SELDOM,
    "RemoveRaftVoter": _CONTROLLER | _SELDOM,
    "RenewDelegationToken": _CONTROLLER | _SELDOM,
    "SaslAuthenticate": _CONTROLLER | _SELDOM,
    "SaslHandshake": _CONTROLLER | _SELDOM,
    "ShareAcknowledge": _SELDOM,
    "ShareFetch": _SELDOM,
    "ShareGroupDescribe": _SELDOM | _GROUPS,
    "ShareGroupHeartbeat": _SELDOM | _GROUPS,
    "StreamsGroupDescribe": _SELDOM | _GROUPS,
    "StreamsGroupHeartbeat": _SELDOM | _GROUPS,
    "SyncGroup": _GROUPS,
    "TxnOffsetCommit": _GROUPS | _TRANSACTIONS,
    "UnregisterBroker": _CONTROLLER | _SELDOM,
    "UpdateFeatures": _CONTROLLER | _SELDOM,
    "WriteShareGroupState": _SELDOM,
    "WriteTxnMarkers": _SELDOM,
}
"""By API; one without a row has none."""


CONTROLLER_KEYS = frozenset(key for key, api in APIS.items() if Trait.CONTROLLER in TRAITS.get(api.name, Trait(0)))
"""Of the APIs that a controller's listener answers."""


LAYERS = ("faults", "quotas")
"""Who may stand between connections and handlers, the innermost first."""

_LOADED: set[int] = set()
"""The keys of APIs whose modules are there, for all brokers of the process: one that is just being imported would be waited for."""


class Handlers(dict[int, Handler]):
    """The handlers loaded so far; a missing key loads its handler, or is a KeyError if there is no such API.

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
        if release is not None and release.advertised(key) is None:
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
            KeyError: There is no such API.
        """
        async with self._loading[key]:
            if key in APIS and key not in _LOADED:
                with suppress(RuntimeError):  # no thread can be had
                    await trio.to_thread.run_sync(load, key)
        return self[key]

    @staticmethod
    def keys_ahead() -> list[int]:
        """Those of the APIs that are worth loading before somebody asks."""
        return sorted(key for key, api in APIS.items() if Trait.SELDOM not in TRAITS.get(api.name, Trait(0)))


def _as_of(release: Release, handler: Handler) -> Handler:
    """The handler, which ends a connection that brings a version that the release does not have, as that release does."""

    def handle(ctx: Any, request: Request) -> Any:
        key = request.api.key
        if not release.speaks(key, request.version):
            if key != API_VERSIONS_KEY:
                raise ProtocolError(
                    f"{request.api.name} version {request.version}: not supported by Apache Kafka {release.name}, which"
                    f" is emulated and has {release.advertised(key)} (client {request.client_id!r})"
                )
            request.body = None  # answered in version 0, with UNSUPPORTED_VERSION
        return handler(ctx, request)

    return handle


def _without(unstable: int, handler: Handler) -> Handler:
    """The handler, which ends a connection that brings the unstable version, as one that brings a version unheard of."""

    def handle(ctx: Any, request: Request) -> Any:
        if request.version == unstable:
            raise ProtocolError(
                f"{request.api.name} version {unstable} is unstable: served only if unstable.api.versions.enable is"
                f" true (client {request.client_id!r})"
            )
        return handler(ctx, request)

    return handle


def load(key: int) -> None:
    """Do, in any thread, what the first request of an API would wait for: 5 to 20 ms, in its newest version; where it asks for
    a coordinator, a tenth of a second."""
    api = APIS[key]
    version = api.versions[1]
    for trait in (Trait.GROUPS, Trait.TRANSACTIONS):
        if trait in TRAITS.get(api.name, Trait(0)):
            import_module(f"..{str(trait.name).lower()}.service", __package__)
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
