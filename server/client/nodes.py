"""The brokers of a cluster: a connection to each, the version that both sides support, leaders and coordinators.

Only connections are kept. Leaders and coordinators are looked up with every call, so the client is right after tests move,
delete or recreate something; on a loopback address a lookup takes a third of a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.api_versions import ApiVersionsRequest
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from .connection import Client, api_of
from .security import PLAIN, Security
from .values import Partition, Topic, UnreachableError, expect

T = TypeVar("T")
Address = tuple[str, int]

HIGHEST = {"Produce": 12, "Fetch": 12, "OffsetCommit": 9, "OffsetFetch": 9}
"""Highest versions in which these APIs name topics, not ids."""

RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors of requests that did nothing, and may succeed a little later. Not REQUEST_TIMED_OUT and
NOT_ENOUGH_REPLICAS_AFTER_APPEND: after these the records may have been written."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.2
CREATION_PAUSE_S, CREATION_S = 0.005, 0.12
"""Pause before the client asks again for a topic that is being created, and the time for which pauses stay that short: a broker
hides such a topic for 35 to 117 ms."""
BEING_MADE_S = 1.0
"""Time for which UNKNOWN_TOPIC_OR_PARTITION is retried: Apache Kafka returns it while it creates a topic, a broker without
automatic creation for ever."""


class NodeConnections:
    """Connections to the brokers of one cluster, for one thread at a time.

    Args:
        bootstrap: HOST:PORT[,HOST:PORT…]; one that answers is enough.
        timeout_s: Limit for one response, and for all retries.
        security: Used for all connections.
        elapsed_s, pause: Functions for the time, and for a wait.

    Raises:
        ValueError: `bootstrap` is not a list of addresses. Nothing is connected before the first request.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "ottla",
        timeout_s: float = 10,
        security: Security = PLAIN,
        elapsed_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.timeout_s = timeout_s
        self.is_closing = False
        """Set by another thread: errors are not retried any more."""
        self._bootstrap = addresses(bootstrap)
        self._client_id = client_id
        self._security = security
        self._elapsed_s = elapsed_s
        self._pause = pause
        self._connections: dict[Address, tuple[Client, dict[int, tuple[int, int]]]] = {}
        self._nodes: dict[int, Address] = {}
        self._controller = -1

    def close(self) -> None:
        """Close all connections; the next request makes new ones."""
        for connection, _ in self._connections.values():
            connection.close()
        self._connections.clear()
        self.is_closing = False

    def ask(self, message: Any, node: int | None = None) -> Any:
        """Send a request to node `node`, or any, in the highest version that both sides support.

        Raises:
            UnreachableError: No broker answers at its address.
            OSError: The connection broke, or no answer came in time; the request may have been handled.
            KafkaError: UNSUPPORTED_VERSION.
            ProtocolError: The peer is not a broker.
        """
        if node is not None and node not in self._nodes:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node} not found")
        address, client, versions = self._any_connection() if node is None else self._connected(self._nodes[node])
        version = _version(api_of(message), versions, address)
        try:
            return client.ask(message, version)
        except BaseException as error:  # Also an interrupted request: its response would be taken for the next one's.
            del self._connections[address]
            client.close()
            if isinstance(error, OSError):
                raise type(error)(f"broker at {_text(address)}: {error}") from error
            raise

    def ask_controller(self, message: Any) -> Any:
        """Send a request to the controller."""
        self.metadata([])
        return self.ask(message, self._controller if self._controller in self._nodes else None)

    def ask_leader(self, message: Any, topic: str, partition: int, known: Topic | None = None) -> Any:
        """Send a request to the partition's leader.

        Args:
            known: The topic as it was a moment ago; without it the broker is asked.

        Raises:
            KafkaError: The partition is unknown, or has no leader.
        """
        leader = partition_in(known or self.topic(topic), partition).leader
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} of topic {topic!r} has no leader")
        return self.ask(message, leader)

    def ask_coordinator(self, message: Any, group_id: str) -> Any:
        """Send a request to the group's coordinator."""
        from ...protocol.messages.find_coordinator import FindCoordinatorRequest

        answer = self.ask(FindCoordinatorRequest(key=group_id, coordinator_keys=(group_id,)))
        found = answer.coordinators[0] if answer.coordinators else answer
        check(found.error_code, found.error_message or f"group {group_id!r}")
        self._nodes[found.node_id] = (found.host, found.port)
        return self.ask(message, found.node_id)

    def node_ids(self) -> list[int]:
        """Return the ids of all running nodes."""
        self.metadata([])
        return sorted(self._nodes)

    def topics(self) -> list[Topic]:
        """Return all topics by name, including internal ones."""
        return sorted(
            (_topic(row) for row in self.metadata(None).topics if not row.error_code), key=lambda topic: topic.name
        )

    def topic(self, name: str, *, create: bool = False) -> Topic:
        """Return one topic.

        Args:
            create: Let the broker create it, as for a producer, if the broker creates topics automatically.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION with the nearest name, LEADER_NOT_AVAILABLE while it is being created, …
        """
        expect("topic name", name, str)
        (row,) = self.metadata([name], create=create).topics
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            close = get_close_matches(name, [topic.name for topic in self.topics()], 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} not found{hint}")
        check(row.error_code, f"topic {name!r}")
        return _topic(row)

    def metadata(self, names: list[str] | None, *, create: bool = False) -> MetadataResponse:
        """Return metadata of the named topics, of none or (None) of all; remembers the nodes' addresses."""
        wanted = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        answer: MetadataResponse = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))
        check(answer.error_code, "metadata")
        self._nodes = {node.node_id: (node.host, node.port) for node in answer.brokers}
        self._controller = answer.controller_id
        return answer

    def retrying(self, attempt: Callable[[], T], *, repeatable: bool = True, unknown_s: float = 0) -> T:
        """Return the result of `attempt`, which is retried after temporary errors, for `timeout_s` at most.

        Args:
            repeatable: Whether it may be done twice, so that it is also retried after a broken connection.
            unknown_s: How long UNKNOWN_TOPIC_OR_PARTITION is retried for a topic that is being created. The time counts from
                the first such response: a first connection may take longer than all of it.

        Raises:
            The error of the last attempt.
        """
        begin_s = self._elapsed_s()
        unknown_since_s: float | None = None
        for pause_s in _pauses():
            known = bool(self._nodes)
            try:
                return attempt()
            except KafkaError as error:
                end_s = begin_s + (self.timeout_s if error.code in RETRIABLE else 0)
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and unknown_s:
                    unknown_since_s = self._elapsed_s() if unknown_since_s is None else unknown_since_s
                    end_s = unknown_since_s + unknown_s
                    if self._elapsed_s() < unknown_since_s + CREATION_S:
                        pause_s = CREATION_PAUSE_S
                if self.is_closing or self._elapsed_s() + pause_s > end_s:
                    raise
            except OSError as error:
                # A broker that never answered will not do so soon; one that did may be between two runs.
                lasting = not known if isinstance(error, UnreachableError) else not repeatable
                if lasting or self.is_closing or self._elapsed_s() + pause_s > begin_s + self.timeout_s:
                    raise
            self._pause(pause_s)
        raise AssertionError("unreachable: pauses never end")

    def _any_connection(self) -> tuple[Address, Client, dict[int, tuple[int, int]]]:
        """Return an existing connection, or one to the first broker that answers."""
        candidates = dict.fromkeys((*self._connections, *self._nodes.values(), *self._bootstrap))
        reasons = []
        for address in candidates:
            try:
                return self._connected(address)
            except UnreachableError as error:
                reasons.append(str(error))
        raise UnreachableError("; ".join(dict.fromkeys(reasons)))

    def _connected(self, address: Address) -> tuple[Address, Client, dict[int, tuple[int, int]]]:
        if address in self._connections:
            client, versions = self._connections[address]
            if client.is_open():
                return address, client, versions
            client.close()
            del self._connections[address]
        client = self._connect(address)
        try:
            # Every broker supports version 0, and answers it in version 0.
            rows = client.ask(ApiVersionsRequest(), 0).api_keys
        except OSError as error:
            client.close()
            raise UnreachableError(f"no broker answers at {_text(address)}: {error}") from error
        except BaseException:
            client.close()
            raise
        versions = {row.api_key: (row.min_version, row.max_version) for row in rows}
        self._connections[address] = client, versions
        return address, client, versions

    def _connect(self, address: Address) -> Client:
        try:
            return Client(*address, client_id=self._client_id, timeout_s=self.timeout_s, security=self._security)
        except UnreachableError as error:
            raise UnreachableError(f"cannot log in at {_text(address)}: {error}") from error
        except OSError as error:
            raise UnreachableError(f"no broker answers at {_text(address)}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise UnreachableError(f"{_text(address)}: invalid host name: {error}") from error


def addresses(bootstrap: str) -> list[Address]:
    """Parse `HOST:PORT[,HOST:PORT…]` as hosts and ports; brackets around an IPv6 address are removed. Raises ValueError."""
    expect("bootstrap", bootstrap, str)
    found = []
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(
                f"invalid broker address {text.strip()!r}; expected HOST:PORT, with a port from 1 to 65535"
            )
        found.append((host.strip("[]"), int(port)))
    return found


def check(code: int, message: str | None) -> None:
    """Raise the KafkaError of `code`, if it is an error."""
    if code:
        known = code in ErrorCode._value2member_map_
        raise KafkaError(ErrorCode(code) if known else ErrorCode.UNKNOWN_SERVER_ERROR, message or "")


def partition_in(topic: Topic, index: int) -> Partition:
    """Return a partition of a topic. Raises KafkaError, with the valid range, if it does not exist."""
    expect("partition", index, int)
    for partition in topic.partitions:
        if partition.index == index:
            return partition
    raise KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"partition {index} of topic {topic.name!r} not found; it has partitions 0 to {len(topic.partitions) - 1}",
    )


def _topic(row: Any) -> Topic:
    partitions = sorted(row.partitions, key=lambda partition: partition.partition_index)
    return Topic(
        row.name or "",
        row.topic_id,
        tuple(Partition(one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes) for one in partitions),
        row.is_internal,
    )


def _version(api: Any, spoken: dict[int, tuple[int, int]], address: Address) -> int:
    low, high = api.versions
    low_there, high_there = spoken.get(api.key, (0, -1))
    version = min(high, high_there, HIGHEST.get(api.name, high))
    if version < max(low, low_there):
        theirs = f"{low_there} to {high_there}" if high_there >= 0 else "none"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{api.name}: the broker at {_text(address)} supports versions {theirs}, this client {low} to"
            f" {HIGHEST.get(api.name, high)}",
        )
    return int(version)


def _pauses() -> Iterator[float]:
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
