"""One run of the broker: what it owns, opens and closes. `run` starts and stops it, `supervisor` has the runs one after the other."""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections.abc import Iterable
from functools import cached_property
from secrets import token_bytes
from typing import TYPE_CHECKING

from ...storage.data_dirs.inspection import unique
from ...storage.disk.files import Files
from ...storage.disk.paths import TopicPartition
from ...storage.steps import to_the_end
from ...storage.topics.catalog import Catalog
from ..cleaning.cleaning import Cleaning
from ..cleaning.log_moves import LogMoves
from ..cluster.cluster import Cluster
from ..cluster.config_changes import ConfigChanges
from ..cluster.nodes import Node
from ..cluster.opening import OpenStore, Start, open_store
from ..cluster.partition_logs import PartitionLogs
from ..cluster.producer_ids import ProducerIds
from ..cluster.reassignments import Reassignments
from ..cluster.replication_throttle import ReplicationThrottle
from ..cluster.topic_admin import TopicAdmin
from ..config.broker_config import BrokerConfig
from ..config.listeners import ListenerConfig
from ..config.live_config import LiveConfig
from ..config.static_config import StaticConfig
from ..coordination.deps import CoordinatorDeps
from ..faults.disk import with_faults
from ..faults.table import Faults
from ..handlers import Handlers
from ..handlers.dispatch import ListenerDispatcher
from ..network.connection_limits import ConnectionLimits, Hosts
from ..network.connections import Connections
from ..network.dispatcher import RequestDispatcher
from ..network.listener import Listener
from ..network.shares import ConnectionResources
from ..partitions.appends import Appends
from ..partitions.fetch_sessions import FetchSessions
from ..partitions.searches import Searches
from ..partitions.waits import FetchWaits
from ..quotas.rates import Window
from ..quotas.table import SECTION, QuotaTable, read_entries
from ..runtime.clock import Clock
from ..runtime.gc_policy import GcPolicy
from ..runtime.loggers import Loggers
from ..runtime.nursery import Tasks
from ..runtime.threads import side_by_side
from ..security.sasl.logins import Logins
from ..security.sasl.scram_users import SCRAM_USERS
from ..services.changes import QuotaChanges, ScramChanges
from ..services.context import KeptAnswers, Services
from ..services.coordinators import Coordinators
from ..services.former_run import FormerRun
from ..services.listener_keys import ListenerKeys
from ..services.telemetry import Telemetry
from .background_jobs import BackgroundJobs
from .failed_dirs import FailedDirs
from .node_run import NodeRun

if TYPE_CHECKING:
    from ..cleaning.advice import CleanerStatus
    from ..cleaning.leases import CleaningLeases
    from ..cluster.acl_changes import AclChanges
    from ..cluster.token_changes import TokenChanges
    from ..security.acls.authorizer import Authorizer
    from ..security.tokens import Tokens

log = logging.getLogger("ottla.broker")


class Broker:
    """All nodes of this process on one store, for one run.

    Args:
        nodes: The nodes, which outlive it: the next run has the same ports.
        next_producer_id: Lowest producer id that may be assigned.
        features_epoch: Lowest epoch of its features.
        former_run: The run before it.
    """

    services: Services
    """Set by `open`, before anything is served; so are the following attributes."""
    background_jobs: BackgroundJobs
    reassignments: Reassignments
    failed_dirs: FailedDirs

    def __init__(
        self,
        static: StaticConfig,
        nodes: list[Node],
        *,
        clock: Clock,
        files: Files,
        rng: random.Random,
        faults: Faults,
        next_producer_id: int = 0,
        features_epoch: int = 0,
        former_run: FormerRun | None = None,
    ) -> None:
        self.config = LiveConfig(static)
        self.config.features_epoch = max(clock.now_ms(), features_epoch)
        self.clock = clock
        self.files = with_faults(files, unique(self.config.current.data_dirs))
        self.faults = faults
        """Declared faults; those of its disks end with it."""
        self.nodes = nodes
        self.tasks = Tasks()
        self.waits = FetchWaits()
        self.collector = GcPolicy()
        self.handlers = Handlers(self.config.release, unstable=self.config.current.unstable_api_versions_enable)
        self.shares = ConnectionResources(self.config.current, self.collector)
        self.quotas = QuotaTable(clock.elapsed_ms, *_windows(self.config.current))
        self._hosts = Hosts()
        limits = ConnectionLimits(self.config, self._hosts)
        self.connections = Connections(limits, self.shares, clock, self.quotas.connections)
        self.rng = rng
        self.began_s: float
        """Time when it began to serve, by Trio's clock, which cannot be moved."""
        self.kept: dict[type, object] = {}
        """Objects of higher rooms that last as long as this run, by type; e.g. the schema registry, once it is used."""
        self._loggers = Loggers()
        self._next_producer_id = next_producer_id
        self._former_run = former_run or FormerRun()
        self._node_run: NodeRun
        self._store: OpenStore | None = None
        """The store, while it is open."""

    def open(self) -> None:
        """Lock and load the data directories. Blocks; runs in a worker thread before anything is served.

        Raises:
            OSError, DataDirectoryError, ConfigError: The message is one clear line.
        """
        clock, config, files, rng, waits = self.clock, self.config, self.files, self.rng, self.waits
        if not any(map(files.exists, config.current.data_dirs)):
            # No client can have set other options: errors in keys are reported before anything is written.
            ListenerKeys(self.nodes, config).check()
        self._store = open_store(Start(config.static, config.current, files, clock, rng, self._next_producer_id))
        logs, catalog, topics = self._store
        # Options that clients have set before apply to everything that follows.
        problems = config.open(catalog)
        loaded_under = config.current.log_defaults
        for problem in (*problems, *config.settle()):
            log.warning("%s", problem)
        if config.current.log_defaults != loaded_under:
            for topic in topics:
                log_config = config.topic(topic.name)
                for partition in topic.partitions:
                    partition.log.config = log_config
        listener_keys = ListenerKeys(self.nodes, config)
        listener_keys.open()
        self.connections.limits.open()
        config.watchers.append(self._take_options)
        self._take_options()
        holding, problems = read_entries(catalog.entries(SECTION))
        for problem in problems:
            log.warning("%s", problem)
        self.quotas.hold(holding)
        cluster = Cluster(self.nodes, topics, catalog, ReplicationThrottle(self.nodes, config))
        cluster.has_eligible_replicas = lambda: config.has_eligible_replicas
        self.reassignments = Reassignments(cluster, clock)
        for problem in self.reassignments.open():
            log.warning("%s", problem)
        cleaning = Cleaning(files, logs.logs, config, clock, waits)
        appends = Appends(logs.logs, topics, waits, clock, self.tasks, cluster.watchers)
        moves = LogMoves(logs, cleaning, waits, config, clock, self.tasks)
        partition_logs = PartitionLogs(logs, moves, cleaning, appends.flusher, clock, catalog.data_dir)
        topic_admin = TopicAdmin(cluster, config, partition_logs, self.collector, self.tasks, rng)
        producer_ids = ProducerIds(catalog)
        deps = CoordinatorDeps(
            clock, config, self.nodes, topics, logs, appends, topic_admin.ensure_internal, topic_admin.create_by_default
        )
        authorizer = _authorizer(config, catalog)
        tokens = _tokens(config, catalog)
        logins = _logins(config, clock, catalog, rng)
        logins.tokens = tokens
        self.services = Services(
            clock=clock,
            files=files,
            config=config,
            loggers=self._loggers,
            telemetry=Telemetry(config, rng),
            topics=topics,
            logs=logs,
            appends=appends,
            waits=waits,
            fetch_sessions=_fetch_sessions(config, rng),
            searches=Searches(),
            cleaning=cleaning,
            moves=moves,
            cluster=cluster,
            topic_admin=topic_admin,
            config_changes=ConfigChanges(cluster, config, cleaning),
            quotas=self.quotas,
            quota_changes=QuotaChanges(cluster, self.quotas, self._hosts),
            producer_ids=producer_ids,
            coordinators=Coordinators(deps, producer_ids, self.tasks),
            authorizer=authorizer,
            acl_changes=_acl_changes(cluster, authorizer),
            listener_keys=listener_keys,
            connection_limits=self.connections.limits,
            logins=logins,
            scram_changes=ScramChanges(cluster, logins.scram_users),
            kept_metadata=KeptAnswers(),
            former_run=self._former_run,
            token_changes=_token_changes(cluster, tokens, config, rng),
        )
        cluster.watchers += [waits, self.services.coordinators, self.reassignments]
        self.services.telemetry.open()
        self.services.config_changes.on_client_metrics.append(self.services.telemetry.subscriptions_changed)
        self._node_run = NodeRun(cluster, config, self.connections, self.services.fetch_sessions, self.accept_on)
        self.background_jobs = BackgroundJobs(
            logs,
            cleaning,
            appends.flusher,
            self.connections,
            config,
            clock,
            self.collector,
            self.services.token_changes,
        )
        self.failed_dirs = FailedDirs(logs, catalog.data_dir, config, clock, self.faults)
        cleaning.manager.correct_checkpoints(logs.data_dirs)

    def close(self) -> None:
        """Close what `open` has opened, even after an error in it, so that the next start need not recover. Blocks, like
        `open`."""
        self._next_producer_id = self.next_producer_id
        self._loggers.restore()
        store, self._store = self._store, None
        if store is not None:
            try:
                store.catalog.settle()
            except OSError as error:
                log.error("%s", error)
            store.logs.close(self.clock.now_ms(), side_by_side)

    def abandon(self) -> None:
        """Release what `open` has opened and write nothing more, as if the process had been killed. Blocks, like `open`."""
        self._next_producer_id = self.next_producer_id
        self._loggers.restore()
        store, self._store = self._store, None
        if store is not None:
            store.logs.release()

    def _take_options(self) -> None:
        self.connections.limits_changed()
        if self._store is not None:
            config, logs = self.config.current, self._store.logs
            logs.set_producer_expiration(config.producer_id_expiration_ms)
            logs.cordoned = config.cordoned_dirs

    async def stop_node(self, node_id: int) -> None:
        """Stop one node: it hands over its leaderships, ends its connections and stops listening.

        Returns when that is done, at once for a node that is stopped.

        Raises:
            ControlError: NOT_FOUND: unknown node id.
            KafkaError: KAFKA_STORAGE_ERROR: the catalog cannot be written, the node continues to serve.
        """
        await self._node_run.stop(node_id)

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node again, on the same ports: it is in the ISR of its partitions again when this returns.

        Raises:
            ControlError: NOT_FOUND: unknown node id; UNAVAILABLE: the broker stops.
            OSError: Another program has taken the port.
            KafkaError: KAFKA_STORAGE_ERROR: the catalog cannot be written, the node stays stopped.
        """
        await self._node_run.start(node_id)

    def accept_on(self, node: Node, listeners: Iterable[Listener]) -> None:
        """Accept connections on each of these listeners of `node` until it is closed."""
        for listener in listeners:
            dispatcher: RequestDispatcher = ListenerDispatcher(self.handlers, self.services, node, listener)
            for sock in listener.sockets:
                self.tasks.start_soon(self.connections.accept_on, sock, listener, dispatcher, self.tasks.nursery)

    @cached_property
    def leases(self) -> CleaningLeases:
        """Leases that keep the cleaner off partitions; only while the broker serves. No lease outlives it."""
        from ..cleaning.leases import CleaningLeases

        services = self.services
        return CleaningLeases(services.logs.logs, services.cleaning, self.waits, self.clock, self.rng, self.tasks)

    @property
    def next_producer_id(self) -> int:
        """Lowest producer id that was not assigned so far."""
        return self._next_producer_id if self._store is None else self._store.catalog.state.next_producer_id

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of each node's first listener, comma-separated, in id order."""
        return ",".join(node.listeners[0].address for node in self.nodes)

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `metrics`. Call it on Trio's thread."""
        from .metrics import collect

        services = self.services
        return collect(
            services.logs, services.cleaning, services.appends, services.quotas, self.connections, self.clock
        )

    def cleaner_status(self, wanted: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, CleanerStatus]:
        """Return what the cleaner has done to each partition (all, or the existing ones of `wanted`), and what it waits for.
        `explain` also says what would end the wait.

        Call it on Trio's thread.
        """
        table = self.services.logs.logs
        logs = list(table.values()) if wanted is None else [table[tp] for tp in wanted if tp in table]
        return {
            log.topic_partition: to_the_end(status)
            for log, status in zip(logs, self.services.cleaning.statuses(logs, with_ways=False), strict=True)
        }


def nodes_of(static: StaticConfig) -> list[Node]:
    """Make the nodes of the static configuration, not bound yet."""
    first = static.node_ids[0]
    return [_node(static.node(node_id), static.controllers if node_id == first else ()) for node_id in static.node_ids]


def _node(config: BrokerConfig, controllers: tuple[ListenerConfig, ...]) -> Node:
    listeners = [Listener.from_config(listener) for listener in (*config.listener_configs, *controllers)]
    return Node(config.node_id, listeners, config.broker_rack)


def _logins(config: LiveConfig, clock: Clock, catalog: Catalog, rng: random.Random) -> Logins:
    # The secret comes from data that no client gets, and is the same in the next run unless users change; directory ids would
    # not do: DescribeQuorum returns them.
    stored = catalog.entries(SCRAM_USERS)
    secret = hashlib.sha256(json.dumps(dict(stored), sort_keys=True).encode()).digest() if stored else token_bytes(32)
    logins = Logins(config, clock, secret)
    logins.open()
    for problem in logins.scram_users.load(stored):
        log.warning("%s", problem)
    if changed := logins.scram_users.begin_with(config.static.users, rng):
        catalog.put_entries(SCRAM_USERS, changed)
    return logins


def _authorizer(config: LiveConfig, catalog: Catalog) -> Authorizer | None:
    entries = catalog.entries("acls")
    told = config.current.authorization
    if told is None:
        if entries:
            log.warning("%d stored ACLs have no effect: authorizer.class.name is not set", len(entries))
        return None
    from ..security.acls.authorizer import Authorizer  # A broker without an authorizer must not load it.

    authorizer = Authorizer(told.super_users, allow_if_no_acl=told.allow_if_no_acl)
    for problem in authorizer.load(entries):
        log.warning("%s", problem)
    return authorizer


def _acl_changes(cluster: Cluster, authorizer: Authorizer | None) -> AclChanges | None:
    if authorizer is None:
        return None
    from ..cluster.acl_changes import AclChanges

    return AclChanges(cluster, authorizer)


def _tokens(config: LiveConfig, catalog: Catalog) -> Tokens | None:
    secret_key = config.current.delegation_token_secret_key
    if not secret_key:
        return None
    from ..security.tokens import Tokens  # As above.

    tokens = Tokens(secret_key)
    for problem in tokens.load(catalog.entries("delegation_tokens")):
        log.warning("%s", problem)
    return tokens


def _token_changes(
    cluster: Cluster, tokens: Tokens | None, config: LiveConfig, rng: random.Random
) -> TokenChanges | None:
    if tokens is None:
        return None
    from ..cluster.token_changes import TokenChanges

    return TokenChanges(cluster, tokens, config, rng)


def _fetch_sessions(config: LiveConfig, rng: random.Random) -> dict[int, FetchSessions]:
    slots = config.current.max_incremental_fetch_session_cache_slots
    return {node_id: FetchSessions(slots, rng) for node_id in config.static.node_ids}


def _windows(config: BrokerConfig) -> tuple[Window, Window]:
    """Return the windows for client quotas and for controller mutations."""
    return (
        Window(config.quota_window_num, config.quota_window_size_seconds * 1000),
        Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
    )
