"""What handlers see: the services of the broker, where a request came in, and from whom."""

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
from ..network.desk import RequestingClient
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
from .listener_keys import ListenerKeys
from .telemetry import Telemetry

if TYPE_CHECKING:  # No broker shall wait for these before it has an authorizer, tokens, or a question for metadata.
    from ...protocol.messages.metadata import MetadataResponse
    from ..cluster.acl_changes import AclChanges
    from ..cluster.token_changes import TokenChanges
    from ..security.acls.authorizer import Authorizer


class Services(NamedTuple):
    """What handlers use of one broker."""

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
    """By node id."""
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
    authorizer: Authorizer | None = None
    """None: everybody may do everything."""
    acl_changes: AclChanges | None = None
    """Where there is an authorizer."""
    token_changes: TokenChanges | None = None
    """Where there are delegation tokens."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know beside the request itself."""

    services: Services
    node: Node
    """The node whose listener took the connection; routing facts are seen from here."""
    listener: Listener
    client: RequestingClient
    time_slice: TimeSlice = field(default_factory=TimeSlice)
    """Of the task that serves the connection: for handlers that mostly have little to do."""
    mutations: Mutations | None = None
    """The quota of the topics that the request makes, deletes or lets grow; None: none."""

    @property
    def server_id(self) -> int:
        """The id of who was asked: of the node, or of a controller that answers at one of its listeners."""
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
        """Whether the client may do this to that resource, which need not be there.

        Args:
            is_attempt: Whether the client has asked for it. What is only left out of a list, or would do in the place of
                another right, is no attempt, and a refusal of it is not logged.
        """
        authorizer, client = self.services.authorizer, self.client
        return authorizer is None or authorizer.allows(
            client.principal, client.client_host, operation, resource_type, name, is_attempt=is_attempt
        )

    async def may_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may do this to some resource of the type, be there one or not. In turns."""
        authorizer, client = self.services.authorizer, self.client
        return authorizer is None or await run_cooperatively(
            authorizer.allows_any(client.principal, client.client_host, operation, resource_type)
        )


ROWS_MIN = 100
"""Topics and partitions of an answer that is kept; what has fewer takes a quarter of a millisecond at most."""
ROWS_MAX = 50_000
"""Of all that are kept together; each takes some 150 bytes, with those that it is sent as."""
ANSWERS_MAX = 16


class MetadataFacts(NamedTuple):
    """What all answers tell of, as far as it changes."""

    topics: int
    """`Topics.changes`: which there are, their partitions, who leads and holds those."""
    failures: int
    """`Health.changes`: which logs are offline."""
    has_eligible_replicas: bool
    """Of a partition without leader the ISR is told, or not."""
    rights: int | None
    """`Authorizer.generation`; what a client may is not told anybody else, and its principal and host are in the key."""


class KeptAnswers:
    """Answers about many partitions, kept until anything changes that they tell of: made once, written once, and sent as bytes after it.

    A producer of a topic of thousands of partitions asks anew every few minutes, thousands of clients do after a restart, and
    a console asks for everything again and again. All that an answer says follows from `MetadataFacts` and from its key: who makes an
    answer say more puts that into one of them. The oldest make room for others.
    """

    def __init__(self) -> None:
        self._facts: MetadataFacts | None = None
        self._answers: dict[Hashable, tuple[MetadataResponse, int]] = {}
        self.rows = 0
        """Of all of them."""

    def find(self, facts: MetadataFacts, key: Hashable) -> MetadataResponse | None:
        """The answer to this question, if it would be the same now."""
        if facts != self._facts:
            self._answers.clear()
            self._facts, self.rows = facts, 0
        found = self._answers.get(key)
        return None if found is None else found[0]

    def keep(self, facts: MetadataFacts, key: Hashable, answer: MetadataResponse, rows: int) -> None:
        """An answer of so many topics and partitions, which was made of these facts."""
        if facts != self._facts or rows > ROWS_MAX or key in self._answers:
            return
        self._answers[key] = answer, rows
        self.rows += rows
        while self.rows > ROWS_MAX or len(self._answers) > ANSWERS_MAX:
            self.rows -= self._answers.pop(next(iter(self._answers)))[1]
