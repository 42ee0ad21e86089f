"""Context of a request: the services of the broker, the node, the listener and the client."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...storage.data_dirs.manager import LogManager
from ...storage.disk.files import Files
from ..cleaning.cleaning import Cleaning
from ..cleaning.log_moves import LogMoves
from ..cluster.cluster import Cluster
from ..cluster.config_changes import ConfigChanges
from ..cluster.nodes import Node
from ..cluster.producer_ids import ProducerIds
from ..cluster.topic_admin import TopicAdmin
from ..config.live_config import LiveConfig
from ..network.connection_limits import ConnectionLimits
from ..network.dispatcher import RequestingClient
from ..network.listener import Listener
from ..partitions.appends import Appends
from ..partitions.fetch_sessions import FetchSessions
from ..partitions.searches import Searches
from ..partitions.topics import Topics
from ..partitions.waits import FetchWaits
from ..quotas.clients import Mutations
from ..quotas.table import QuotaTable
from ..runtime.clock import Clock
from ..runtime.loggers import Loggers
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..security.sasl.logins import Logins
from .changes import QuotaChanges, ScramChanges
from .coordinators import Coordinators
from .former_run import FormerRun
from .listener_keys import ListenerKeys
from .telemetry import Telemetry

if TYPE_CHECKING:  # A start must not load these before it has an authorizer, tokens, or a Metadata request.
    from ...protocol.messages.metadata import MetadataResponse
    from ..cluster.acl_changes import AclChanges
    from ..cluster.token_changes import TokenChanges
    from ..security.acls.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class Services:
    """Services of one broker."""

    clock: Clock
    files: Files
    config: LiveConfig
    loggers: Loggers
    telemetry: Telemetry
    topics: Topics
    logs: LogManager
    appends: Appends
    waits: FetchWaits
    fetch_sessions: Mapping[int, FetchSessions]
    """Fetch sessions by node id."""
    searches: Searches
    cleaning: Cleaning
    moves: LogMoves
    cluster: Cluster
    topic_admin: TopicAdmin
    config_changes: ConfigChanges
    quotas: QuotaTable
    quota_changes: QuotaChanges
    producer_ids: ProducerIds
    coordinators: Coordinators
    listener_keys: ListenerKeys
    connection_limits: ConnectionLimits
    logins: Logins
    scram_changes: ScramChanges
    kept_metadata: KeptAnswers
    former_run: FormerRun
    authorizer: Authorizer | None = None
    """None: all operations are allowed."""
    acl_changes: AclChanges | None = None
    """Only with an authorizer."""
    token_changes: TokenChanges | None = None
    """Only with delegation tokens."""


@dataclass(frozen=True, slots=True)
class Context:
    """Data for a handler in addition to the request."""

    services: Services
    node: Node
    """The node whose listener took the connection; requests are answered from the view of this node."""
    listener: Listener
    client: RequestingClient
    time_slice: TimeSlice = field(default_factory=TimeSlice)
    """Time slice of the task that serves the connection: for handlers that mostly have little to do."""
    mutations: Mutations | None = None
    """Quota for topics that the request creates, deletes or extends; None: no quota."""

    @property
    def server_id(self) -> int:
        """Id of the node, or of the controller that serves the listener."""
        controller_id = self.listener.controller_id
        return self.node.node_id if controller_id is None else controller_id

    def may(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_attempt: bool = True,
    ) -> bool:
        """Return whether the client may do this to that resource, which need not exist.

        Args:
            is_attempt: Whether the client has asked for it. A check that only filters a list, or an alternative to another
                permission, is not an attempt, and its refusal is not logged.
        """
        authorizer, client = self.services.authorizer, self.client
        return authorizer is None or authorizer.allows(
            client.principal, client.client_host, operation, resource_type, name, is_attempt=is_attempt
        )

    async def may_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client may do this to any resource of the type, existing or not. Yields to other tasks."""
        authorizer, client = self.services.authorizer, self.client
        return authorizer is None or await run_cooperatively(
            authorizer.allows_any(client.principal, client.client_host, operation, resource_type)
        )


ROWS_MIN = 100
"""Smallest size, in topics and partitions, of a cached response; a smaller one takes a quarter of a millisecond at most."""
ROWS_MAX = 50_000
"""Largest size of all cached responses; each row takes some 150 bytes, including its encoded bytes."""
ANSWERS_MAX = 16


class MetadataFacts(NamedTuple):
    """The state that all cached responses depend on."""

    topics: int
    """`Topics.changes`: the topics, their partitions, leaders and replicas."""
    failures: int
    """`Health.changes`: the offline logs."""
    has_eligible_replicas: bool
    """Whether the ISR of a partition without leader is empty."""
    rights: int | None
    """`Authorizer.generation`; the key has the client's principal and host, so permissions are not shared."""


class KeptAnswers:
    """Cached responses about many partitions, dropped at any change of their facts: made once, written once, and sent as bytes
    after it.

    A producer of a topic with thousands of partitions asks again every few minutes, thousands of clients do after a restart,
    and a console asks for everything again and again. A response depends only on `MetadataFacts` and on its key: an addition to
    the response must be added to one of them. The oldest responses make room for others.
    """

    def __init__(self) -> None:
        self._facts: MetadataFacts | None = None
        self._answers: dict[Hashable, tuple[MetadataResponse, int]] = {}
        self.rows = 0
        """Rows of all cached responses."""

    def find(self, facts: MetadataFacts, key: Hashable) -> MetadataResponse | None:
        """Return the cached response to this question, if it is still valid."""
        if facts != self._facts:
            self._answers.clear()
            self._facts, self.rows = facts, 0
        found = self._answers.get(key)
        return None if found is None else found[0]

    def keep(self, facts: MetadataFacts, key: Hashable, answer: MetadataResponse, rows: int) -> None:
        """Cache a response with this number of rows, made of these facts."""
        if facts != self._facts or rows > ROWS_MAX or key in self._answers:
            return
        self._answers[key] = answer, rows
        self.rows += rows
        while self.rows > ROWS_MAX or len(self._answers) > ANSWERS_MAX:
            self.rows -= self._answers.pop(next(iter(self._answers)))[1]
