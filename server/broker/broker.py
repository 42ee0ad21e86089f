"""The broker: what it owns, how it starts and how it stops.

Start, in an order that leaves nothing behind when a step fails: bind all listeners, lock and load the
data directories, load or make the catalog, then accept. Stop: accept no more, let requests in progress
end (until a deadline), stop the cleaner, close the logs, which marks the directories as cleanly closed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.files import Files, OsFiles
from ...storage.disk.paths import TopicPartition
from ...storage.disk.steps import to_the_end
from ...storage.logs.log import AppendInfo, Log
from ...storage.logs.manager import LogManager
from ...storage.produce.validation import AppendOrigin
from ...storage.topics.catalog import Catalog
from ...storage.topics.config import LogConfig
from ..cleaning.cleaning import Cleaning
from ..cluster.nodes import Listener, Node, close_all
from ..cluster.opening import open_store
from ..cluster.producer_ids import ProducerIds
from ..cluster.topic_admin import TopicAdmin
from ..config.broker_config import BrokerConfig, StaticConfig, resolve
from ..config.features import Feature, finalized
from ..coordination.store import Flushed
from ..handlers import Handlers
from ..network.answer_places import AnswerPlaces
from ..network.connections import Connections
from ..network.large_requests import LargeRequests
from ..network.request_memory import RequestMemory
from ..network.unsent_answers import UnsentAnswers
from ..partitions.fetch_sessions import FetchSessions
from ..partitions.flusher import Flusher
from ..partitions.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ..partitions.searches import Searches
from ..partitions.topics import NO_LEADER, Partition, Topic, Topics, unknown_topic
from ..partitions.waits import Waits
from ..runtime.clock import Clock
from ..runtime.collector import Collector
from ..runtime.disk import Work, on_disk
from ..runtime.meters import Meter
from ..runtime.nursery import open_plain_nursery
from ..runtime.turns import Turn
from .housekeeping import Housekeeping
from .node_life import STOP_DEADLINE_S, NodeLife

if TYPE_CHECKING:
    from ..cleaning.status import CleanerStatus
    from ..groups.service import GroupService
    from ..http.listener import AdminHttp
    from ..transactions.service import TransactionService

log = logging.getLogger("ottla.broker")

# What `queued.max.request.bytes=-1` (no limit) of Kafka means here; see the README's differences.
DEFAULT_REQUEST_MEMORY_BYTES = 512 << 20
# When to try again to flush a log whose flush was refused for a reason that passes.
FLUSH_RETRY_MS = 1_000
# Produced batches that worker threads unpack at one time; each may take what a batch may unpack to.
HEAVY_CHECKS_MAX = 2
# Logs that are closed at the same time at a stop, where it is worth threads.
CLOSED_AT_ONCE, MANY_TO_CLOSE = 8, 16


class Broker:
    """All nodes of this process over one store. Made by `run_broker`."""

    def __init__(self, static: StaticConfig, *, clock: Clock, files: Files, rng: random.Random) -> None:
        self.static = static
        self.config: BrokerConfig = static.node(static.node_ids[0])
        """What the first node runs with; what all nodes share is read from here."""
        self.clock = clock
        self.files = files
        self.rng = rng
        self.stopping = False
        self.config_lock = trio.Lock()
        """Held from reading what is configured to writing what shall be, so that no change is lost."""
        self.handlers = Handlers()
        self.waits = Waits()
        self.heavy_checks = trio.CapacityLimiter(HEAVY_CHECKS_MAX)
        self.large_appends: dict[Log, trio.Event] = {}
        """Logs to which a large batch is being written, and when that is over: the other producers of a partition wait, or none
        would ever come to an end."""
        self.topics = Topics()
        self.flusher = Flusher(clock, self.waits.moved)
        self.keyless_refused = Meter()
        """Records without a key that compacted topics did not take."""
        self.connections = Connections(self)
        limit_bytes = self.config.queued_max_request_bytes
        if limit_bytes <= 0:
            limit_bytes = DEFAULT_REQUEST_MEMORY_BYTES
        self.request_memory = RequestMemory(limit_bytes)
        self.unsent_answers = UnsentAnswers(limit_bytes)
        self.collector = Collector()
        self.large_requests = LargeRequests(self.collector)
        self.answer_places = AnswerPlaces()
        self.searches = Searches()
        self.nodes = [_node(static.node(node_id), rng) for node_id in static.node_ids]
        self._node_by_id = {node.node_id: node for node in self.nodes}
        self.node_life = NodeLife(self)
        self.admin_http: AdminHttp | None = None
        """Off unless `run_broker` was given an address for it."""
        self.features_epoch = clock.now_ms()
        """Higher after each start, which may have changed levels: clients believe the highest that they have seen."""
        self._is_open = False
        # Set by `open`, before anything is served.
        self.logs: LogManager
        self.catalog: Catalog
        self.features: dict[str, Feature]
        self.admin: TopicAdmin
        self.producer_ids: ProducerIds
        self.cleaning: Cleaning
        self.housekeeping: Housekeeping
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None
        self._tasks: trio.Nursery

    def open(self) -> None:
        """Lock and load the data directories. Blocks; runs in a worker thread before anything is served.

        Raises:
            OSError, DirectoryLockedError, CatalogError, DataDirectoryError: One clear line each.
        """
        self.logs, self.catalog = open_store(self)
        self._is_open = True
        self._set_up()

    def close(self) -> None:
        """Close what `open` opened, as far as it came, so that the next start need not recover. Blocks likewise."""
        if self._is_open:
            self._is_open = False
            try:
                self.catalog.settle()
            except OSError as error:
                log.error("%s", error)
            self.logs.close(self.clock.now_ms(), _some_at_a_time)

    def _set_up(self) -> None:
        """Everything that stands on the open store."""
        for problem in dict.fromkeys(line for each in self.live_node_ids() for line in self._resolve_config(each)[1]):
            log.warning("%s", problem)
        self._apply_dynamic_configs()
        self.features = finalized(self.static.features, self.catalog.features)
        self.admin = TopicAdmin(self, self.rng)
        self.producer_ids = ProducerIds(self.catalog)
        self.cleaning = Cleaning(self)
        self.cleaning.manager.correct_checkpoints(self.logs.data_dirs)
        self.housekeeping = Housekeeping(self)

    # What the nodes are

    @property
    def cluster_id(self) -> str:
        return self.catalog.cluster_id

    def node(self, node_id: int) -> Node | None:
        """The node with this id, if there is one."""
        return self._node_by_id.get(node_id)

    def live_node_ids(self) -> list[int]:
        """Ids of the nodes that serve, ascending."""
        return [node.node_id for node in self.nodes if node.is_alive]

    def controller_id(self) -> int:
        """The node that clients are told to send admin requests to, the first live one; −1 if none lives."""
        return next(iter(self.live_node_ids()), -1)

    async def stop_node(self, node_id: int) -> None:
        """Stop one node: it hands over what it leads, ends its connections and listens no more.

        Returns when that is done, at once for a node that is stopped.

        Raises:
            NodeError: There is no such node.
            KafkaError: KAFKA_STORAGE_ERROR: the catalog cannot be written, the node serves on.
        """
        await self.node_life.stop(node_id)

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node again, on the same ports: it is in the ISR of its partitions again when this returns.

        Raises:
            NodeError: There is no such node, or the broker stops.
            OSError: Another program has taken the port.
            KafkaError: KAFKA_STORAGE_ERROR: the catalog cannot be written, the node stays stopped.
        """
        await self.node_life.start(node_id)

    def accept_on(self, node: Node) -> None:
        """Take connections on each listener of `node` until it is closed."""
        for listener in node.listeners:
            self._tasks.start_soon(self.connections.accept_on, node, listener, self._tasks)

    def leader_moved(self, partition: Partition) -> None:
        """Another node leads `partition`, or none: whoever waits at it or keeps its tables looks again."""
        self.waits.changed(partition.topic_partition)
        coordinator = self._coordinator(partition.topic_partition.topic)
        if coordinator is not None:
            coordinator.leadership_changed(partition.index)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of each node's first listener, comma-separated, in id order."""
        return ",".join(node.listeners[0].address for node in self.nodes)

    @property
    def groups(self) -> GroupService:
        """The group coordinator, loaded when it is first asked for: many short-lived brokers never see a group."""
        if self._groups is None:
            self._tasks.start_soon(self._make_groups().run)
            assert self._groups is not None
            if self.stopping:
                self._groups.close()
        return self._groups

    @property
    def loaded_groups(self) -> GroupService | None:
        """The group coordinator if anybody has asked for it; until then there are no groups to tell anything."""
        return self._groups

    def _make_groups(self) -> GroupService:
        from ..groups.service import GroupService

        self._groups = GroupService(self)
        return self._groups

    @property
    def transactions(self) -> TransactionService:
        """The transaction coordinator, loaded when it is first asked for."""
        if self._transactions is None:
            self._tasks.start_soon(self._make_transactions().run)
            assert self._transactions is not None
            if self.stopping:
                self._transactions.close()
        return self._transactions

    def _make_transactions(self) -> TransactionService:
        from ..transactions.service import TransactionService

        self._transactions = TransactionService(self)
        return self._transactions

    # What handlers ask for

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature that we support; 0 is none. KeyError for any other."""
        return self.features[name].level

    async def new_producer_id(self) -> int:
        """A producer id that was never given before. KafkaError KAFKA_STORAGE_ERROR if none can be recorded."""
        return await self.producer_ids.take()

    async def flush(self, logs: Iterable[Log]) -> None:
        """Return once everything appended to `logs` so far survives a power loss."""
        await self.flusher.flush(logs)

    def min_insync_replicas(self, partition: Partition) -> int:
        """`min.insync.replicas` of the topic; for the broker's own topics at most their replication factor."""
        wanted = partition.log.config.min_insync_replicas
        return min(wanted, len(partition.replicas)) if partition.is_internal else wanted

    def append_internal(
        self, topic_partition: TopicPartition, records: bytearray, *, transaction_version: int = 0
    ) -> AppendInfo:
        """Append batches that the broker wrote itself, and wake whoever fetches them.

        Where `flush.messages` asks for it, the sync begins now and nobody waits for it here: who builds on the append does
        (`when_flushed`). If it fails, the partition's coordinator gives up its tables.

        Raises:
            KafkaError: as Log.append; NOT_LEADER_OR_FOLLOWER (no live node leads it), NOT_ENOUGH_REPLICAS.
        """
        partition = self.topics.partition(*topic_partition)
        if partition.leader == NO_LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no node leads {topic_partition}")
        if len(partition.isr) < self.min_insync_replicas(partition):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{topic_partition} has {len(partition.isr)} in-sync replicas, "
                f"min.insync.replicas is {self.min_insync_replicas(partition)}",
            )
        done = partition.log.append(
            memoryview(records),
            now_ms=self.clock.now_ms(),
            leader_epoch=partition.leader_epoch,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )
        if partition.log.needs_flush:
            self.when_flushed([topic_partition], partial(self._flushed, partition), self.clock.now_ms())
        else:
            self.waits.moved(partition.log)
        return done

    def _flushed(self, partition: Partition, failed: Collection[TopicPartition], now_ms: int) -> None:
        if not failed:
            return
        self.waits.changed(partition.topic_partition)
        coordinator = self._coordinator(partition.topic_partition.topic)
        if coordinator is not None:
            coordinator.coordinator.lose(partition.index, now_ms)

    def when_flushed(self, partitions: Iterable[TopicPartition], then: Flushed, now_ms: int) -> None:
        """Call `then` once as much of these partitions is on disk as `flush.messages` asks for.

        At once if nothing is missing, else from a task of its own. Partitions that do not exist miss nothing.
        """
        wanted = {log: one for one in partitions if (log := self.logs.logs.get(one)) is not None and log.needs_flush}
        if wanted:
            self._tasks.start_soon(self._flush_then, wanted, then)
        else:
            then((), now_ms)

    async def _flush_then(self, wanted: Mapping[Log, TopicPartition], then: Flushed) -> None:
        failed: set[TopicPartition] = set()
        left = list(wanted)
        while left:
            refused = await self.flusher.flush_each(left)
            failed.update(wanted[log] for log in refused if log.failure is not None)
            left = [log for log in refused if log.failure is None]
            if left:  # nothing is wrong with the disk: descriptors or memory were short
                await self.clock.sleep(FLUSH_RETRY_MS)
        try:
            then(failed, self.clock.now_ms())
        except Exception:
            log.exception("what was to follow the flush of %s failed", ", ".join(map(str, wanted.values())))

    def _coordinator(self, topic: str) -> GroupService | TransactionService | None:
        """The one that keeps its state in this topic, if it is at work."""
        return {OFFSETS_TOPIC: self._groups, TRANSACTIONS_TOPIC: self._transactions}.get(topic)

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The broker's own topic `name`, created with the options meant for it if it is not there."""
        return self.topics.get(name) or await self.admin.create_internal(name)

    # What it tells of itself

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `metrics`. To be called on Trio's thread."""
        from .metrics import collect

        return collect(self)

    def cleaner_status(self, wanted: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, CleanerStatus]:
        """What the cleaner has done to each partition (all, or those wanted that there are), and what it waits for.

        To be called on Trio's thread.
        """
        table = self.logs.logs
        logs = list(table.values()) if wanted is None else [table[tp] for tp in wanted if tp in table]
        return {
            log.topic_partition: to_the_end(status)
            for log, status in zip(logs, self.cleaning.statuses(logs), strict=True)
        }

    # Configuration

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The overrides of a topic. KafkaError UNKNOWN_TOPIC_OR_PARTITION, also in the moment in which it goes."""
        entry = self.catalog.topics.get(name)
        if entry is None or self.topics.get(name) is None:
            raise unknown_topic(name)
        return entry.configs

    def topic_log_config(self, name: str) -> LogConfig:
        """The values that the logs of topic `name` run with."""
        entry = self.catalog.topics.get(name)
        return self.config.topic_config(entry.configs if entry else {})

    async def alter_topic_configs(self, wished: Mapping[Topic, Mapping[str, str]]) -> set[Topic]:
        """Replace the overrides of topics; they hold from the next append, retention run or clean pass on.

        `wished` has been checked. Returns those of the topics that were deleted meanwhile, and perhaps made anew.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
        """
        async with self.admin.lock:
            present = {topic: configs for topic, configs in wished.items() if self.topics.get(topic.name) is topic}
            texts = {topic.name: configs for topic, configs in present.items()}
            if texts:
                await on_disk(Work.CATALOG, self.catalog.data_dir, self.catalog.set_topic_configs, texts)
        await self._reconfigure_logs(present)
        return wished.keys() - present.keys()

    async def alter_broker_configs(self, node: str, configs: Mapping[str, str]) -> None:
        """Replace the dynamic configs of node id `node` or of the cluster default (""); holds at once."""
        async with self.admin.lock:
            await on_disk(Work.CATALOG, self.catalog.data_dir, self.catalog.set_broker_configs, node, configs)
        self._apply_dynamic_configs()
        self.cleaning.reconfigure()
        await self._reconfigure_logs(list(self.topics))

    def config_of(self, node_id: int) -> BrokerConfig:
        """What the node with this id runs with; see `resolve`."""
        return self._resolve_config(node_id)[0]

    def _resolve_config(self, node_id: int) -> tuple[BrokerConfig, list[str]]:
        return resolve(self.static, self.catalog.state.broker_configs, node_id)

    def _apply_dynamic_configs(self) -> None:
        self.config = self.config_of(self.nodes[0].node_id)
        self.logs.set_producer_expiration(self.config.producer_id_expiration_ms)
        if self._groups is not None:
            self._groups.reconfigure()

    async def _reconfigure_logs(self, topics: Iterable[Topic]) -> None:
        """Give the logs what they run with by now; topics that are made meanwhile have it already."""
        turn = Turn()
        for topic in topics:
            if turn.is_over():
                await turn.next()
            config = self.topic_log_config(topic.name)
            for partition in topic.partitions:
                if turn.is_over():
                    await turn.next()
                if self.topics.get(topic.name) is not topic:
                    break  # deleted meanwhile
                self.cleaning.log_reconfigured(partition.log, config)


def _some_at_a_time(close: Callable[[Log], bool], logs: Sequence[Log]) -> Iterable[bool]:
    """As `map`; syncs of several logs at a time share one commit of the file system."""
    if len(logs) >= MANY_TO_CLOSE:
        from concurrent.futures import ThreadPoolExecutor  # No start shall wait for it.

        try:
            with ThreadPoolExecutor(CLOSED_AT_ONCE) as threads:
                return list(threads.map(close, logs))
        except RuntimeError:
            pass  # no thread can be had; what is closed already has nothing left to do
    return map(close, logs)


def _node(config: BrokerConfig, rng: random.Random) -> Node:
    return Node(
        config.node_id,
        [Listener.of(listener) for listener in config.listener_configs],
        FetchSessions(config.max_incremental_fetch_session_cache_slots, rng),
        config.broker_rack,
    )


@asynccontextmanager
async def run_broker(
    static: StaticConfig,
    *,
    clock: Clock | None = None,
    files: Files | None = None,
    rng: random.Random | None = None,
    admin: str | None = None,
) -> AsyncIterator[Broker]:
    """Start a broker, yield it while it serves, and stop it cleanly.

    Args:
        admin: `[HOST:]PORT` of the admin HTTP listener, a loopback address; without it there is none.

    Raises:
        OSError: A listener cannot be had, or the disk refuses.
        ConfigError, CatalogError, DirectoryLockedError, DataDirectoryError: Bad options or an unusable
            data directory; each message is one clear line, and nothing was written.
    """
    broker = Broker(static, clock=clock or Clock(), files=files or OsFiles(), rng=rng or random.Random())
    if admin is not None:
        broker.admin_http = _admin_http(broker, admin)
    try:
        for node in broker.nodes:
            node.bind(broker.config.socket_listen_backlog_size)
        if broker.admin_http is not None:
            broker.admin_http.bind()
        try:
            await trio.to_thread.run_sync(broker.open)
            async with _serving(broker):
                yield broker
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(broker.close)
    finally:
        close_all(broker.nodes)
        if broker.admin_http is not None:
            broker.admin_http.close()


def _admin_http(broker: Broker, address: str) -> AdminHttp:
    from ..http.listener import AdminHttp, parse_address

    return AdminHttp(broker, parse_address(address))


@asynccontextmanager
async def _serving(broker: Broker) -> AsyncIterator[None]:
    """Tasks and connections, from the first to the last one."""
    async with open_plain_nursery() as nursery:
        broker._tasks = nursery
        if broker.topics.get(OFFSETS_TOPIC) is not None:
            # Small groups are loaded before the first request, so that no client is told to wait.
            await nursery.start(broker._make_groups().run)
        if broker.topics.get(TRANSACTIONS_TOPIC) is not None:
            # Transactions decided before the last stop are finished now.
            await nursery.start(broker._make_transactions().run)
        nursery.start_soon(broker.producer_ids.run)
        nursery.start_soon(broker.request_memory.run)
        nursery.start_soon(broker.unsent_answers.run)
        nursery.start_soon(broker.large_requests.living.run)
        nursery.start_soon(broker.answer_places.run)
        nursery.start_soon(broker.housekeeping.run)
        nursery.start_soon(broker.cleaning.run)
        if broker.admin_http is not None:
            nursery.start_soon(broker.admin_http.run)
        for node in broker.nodes:
            broker.accept_on(node)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await _drain(broker)
            nursery.cancel_scope.cancel()


async def _drain(broker: Broker) -> None:
    """Let requests in progress end and take no new ones."""
    broker.stopping = True
    close_all(broker.nodes)
    if broker._groups is not None:
        broker._groups.close()
    if broker._transactions is not None:
        broker._transactions.close()
    broker.cleaning.stop()
    broker.waits.wake_all()
    await broker.connections.drain(STOP_DEADLINE_S, broker.nodes)
