"""The served APIs: API key -> handler.

Each API has a module here, named like its messages module, with one function that answers it, `handle(ctx: Context, request:
Request)`. It returns the response, or a coroutine that makes it if that may have to wait (`network.dispatcher.Handler`). An `async
def` always returns a coroutine, so only APIs with many small requests are plain functions (heartbeats: see `coordinating`). A
handler and its messages are loaded with the first request of the API, in a thread, so that a start does not make thirty APIs'
classes; `serve` loads those of producers and consumers soon after.
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
    """Properties that only some APIs have."""

    CONTROLLER = auto()
    """The API is also served at a controller's listener: APIs of Apache Kafka's controllers for clients and tools, not those
    for brokers and other controllers."""
    SELDOM = auto()
    """The API is not loaded ahead: it is for administrators, or most brokers never get a request for it. All of these would take
    ten megabytes; `load` says what a first request waits for."""
    GROUPS = auto()
    """The API uses the group coordinator, which is loaded with its handler."""
    TRANSACTIONS = auto()
    """The API uses the transaction coordinator, which is loaded with its handler. Not InitProducerId and Produce, which mostly
    do not need it: a client with transactions begins with FindCoordinator."""


_CONTROLLER, _SELDOM, _GROUPS, _TRANSACTIONS = Trait
TRAITS = {
    "AddOffsetsToTxn": _GROUPS | _TRANSACTIONS,
    "AddPartitionsToTxn": _TRANSACTIONS,
    "AddRaftVoter": _CONTROLLER | _SELDOM,
    "AlterClientQuotas": _CONTROLLER | _SELDOM,
    "AlterConfigs": _CONTROLLER | _SELDOM,
    "AlterPartitionReassignments": _CONTROLLER | _SELDOM,
    "AlterReplicaLogDirs": _SELDOM,
    "AlterShareGroupOffsets": _SELDOM | _GROUPS,
    "AlterUserScramCredentials": _CONTROLLER | _SELDOM,
    "ApiVersions": _CONTROLLER,
    "ConsumerGroupDescribe": _SELDOM | _GROUPS,
    "ConsumerGroupHeartbeat": _GROUPS,
    "CreateAcls": _CONTROLLER | _SELDOM,
    "CreateDelegationToken": _CONTROLLER | _SELDOM,
    "CreatePartitions": _CONTROLLER | _SELDOM,
    "CreateTopics": _CONTROLLER,
    "DeleteAcls": _CONTROLLER | _SELDOM,
    "DeleteGroups": _SELDOM | _GROUPS,
    "DeleteRecords": _SELDOM,
    "DeleteShareGroupOffsets": _SELDOM | _GROUPS,
    "DeleteShareGroupState": _SELDOM,
    "DeleteTopics": _CONTROLLER,
    "DescribeAcls": _CONTROLLER | _SELDOM,
    "DescribeClientQuotas": _SELDOM,
    "DescribeCluster": _CONTROLLER | _SELDOM,
    "DescribeConfigs": _CONTROLLER | _SELDOM,
    "DescribeDelegationToken": _CONTROLLER | _SELDOM,
    "DescribeGroups": _SELDOM | _GROUPS,
    "DescribeLogDirs": _SELDOM,
    "DescribeProducers": _SELDOM,
    "DescribeQuorum": _CONTROLLER | _SELDOM,
    "DescribeShareGroupOffsets": _SELDOM | _GROUPS,
    "DescribeTopicPartitions": _SELDOM,
    "DescribeTransactions": _SELDOM | _TRANSACTIONS,
    "DescribeUserScramCredentials": _CONTROLLER | _SELDOM,
    "ElectLeaders": _CONTROLLER | _SELDOM,
    "EndTxn": _TRANSACTIONS,
    "ExpireDelegationToken": _CONTROLLER | _SELDOM,
    "FindCoordinator": _GROUPS | _TRANSACTIONS,
    "GetTelemetrySubscriptions": _SELDOM,
    "Heartbeat": _GROUPS,
    "IncrementalAlterConfigs": _CONTROLLER | _SELDOM,
    "InitializeShareGroupState": _SELDOM,
    "JoinGroup": _GROUPS,
    "LeaveGroup": _GROUPS,
    "ListConfigResources": _SELDOM,
    "ListGroups": _SELDOM | _GROUPS,
    "ListPartitionReassignments": _CONTROLLER | _SELDOM,
    "ListTransactions": _SELDOM | _TRANSACTIONS,
    "OffsetCommit": _GROUPS,
    "OffsetDelete": _SELDOM | _GROUPS,
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
    "StreamsGroupTopologyDescriptionUpdate": _SELDOM | _GROUPS,
    "SyncGroup": _GROUPS,
    "TxnOffsetCommit": _GROUPS | _TRANSACTIONS,
    "UnregisterBroker": _CONTROLLER | _SELDOM,
    "UnregisterController": _CONTROLLER | _SELDOM,
    "UpdateFeatures": _CONTROLLER | _SELDOM,
    "WriteShareGroupState": _SELDOM,
    "WriteTxnMarkers": _SELDOM,
}
"""Traits by API; an API without a row has none."""


CONTROLLER_KEYS = frozenset(key for key, api in APIS.items() if Trait.CONTROLLER in TRAITS.get(api.name, Trait(0)))
"""Keys of the APIs that a controller's listener serves."""


LAYERS = ("faults", "quotas")
"""Layers between connections and handlers, the innermost first."""

_LOADED: set[int] = set()
"""Keys of the APIs whose modules are loaded, for all brokers of the process. A module that is being imported is not listed: to
import it again would block."""


class Handlers(dict[int, Handler]):
    """The handlers loaded so far; a missing key loads its handler, or raises KeyError for an unknown API.

    Args:
        release: The emulated release: APIs and versions that it does not have are not served.
        unstable: Whether versions that Apache Kafka has not released are served; an emulated release has none.
    """

    def __init__(self, release: Release | None = None, *, unstable: bool = False) -> None:
        super().__init__()
        self._release = release
        self._unstable = unstable
        self._own: dict[int, Handler] = {}
        """Handlers by key, without layers around them."""
        self._instead: dict[str, Mapping[int, Callable[[Handler], Handler]]] = {}
        """Wrappers by layer, of LAYERS."""
        self._loading: defaultdict[int, trio.Lock] = defaultdict(trio.Lock)
        """Locks by key: a thousand connections may begin with the same API, and other APIs do not wait for it."""

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
        """Put wrappers around the handlers of these APIs; all other handlers of the layer are not wrapped.

        `layer` is one of LAYERS, each with its own wrappers; the previous ones are dropped. Takes effect with the next request,
        also on open connections.
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
        """Return `self[key]`, loaded in a thread if necessary: the first group request would delay others for a tenth of a
        second.

        Raises:
            KeyError: Unknown API.
        """
        async with self._loading[key]:
            if key in APIS and key not in _LOADED:
                with suppress(RuntimeError):  # no thread can be started
                    await trio.to_thread.run_sync(load, key)
        return self[key]

    @staticmethod
    def keys_ahead() -> list[int]:
        """List the APIs that are worth loading before their first request."""
        return sorted(key for key, api in APIS.items() if Trait.SELDOM not in TRAITS.get(api.name, Trait(0)))


def _as_of(release: Release, handler: Handler) -> Handler:
    """Wrap the handler to close a connection that uses a version that the release does not have, as that release does."""

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
    """Wrap the handler to close a connection that uses the unstable version, like any unknown version."""

    def handle(ctx: Any, request: Request) -> Any:
        if request.version == unstable:
            raise ProtocolError(
                f"{request.api.name} version {unstable} is unstable: served only if unstable.api.versions.enable is"
                f" true (client {request.client_id!r})"
            )
        return handler(ctx, request)

    return handle


def load(key: int) -> None:
    """Do the work that the first request of an API would wait for, in any thread: 5 to 20 ms, for its newest version; with a
    coordinator, a tenth of a second."""
    api = APIS[key]
    version = api.versions[1]
    for trait in (Trait.GROUPS, Trait.TRANSACTIONS):
        if trait in TRAITS.get(api.name, Trait(0)):
            import_module(f"..{str(trait.name).lower()}.service", __package__)
    _module(api)
    _ = codec(api.request, version, api.is_flexible(version)).read_within
    _ = codec(api.response, version, api.is_flexible(version)).write


def _handler(api: Api) -> Handler:
    """Return the handler with its check of permissions: it gets no requests that the client may not send at all."""
    from .permissions import guarded  # loaded with the first handler

    return guarded(api, _module(api))


def _module(api: Api) -> ModuleType:
    module = import_module(f".{snake_case(api.name)}", __package__)
    _LOADED.add(api.key)
    return module
