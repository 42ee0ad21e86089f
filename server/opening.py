"""Opening the data directories: whose they are, which topics there are, and bringing both together.

What a directory may hold, and what becomes of it:

    ottla.json                      the catalog: topics, ids, configs as promised to clients
    no catalog, Apache Kafka's      the catalog is made from its metadata log, which is only read
        __cluster_metadata-0
    no catalog, partitions only     names, ids and numbers of partitions come from the directories
    a topic without its directory   it was being created: an empty log is made
    a directory without its topic   it was being deleted, or is not ours: put aside as `…-stray`
"""

from __future__ import annotations

import base64
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..storage import paths
from ..storage.catalog import Catalog, CatalogState, PartitionEntry, TopicEntry
from ..storage.checkpoints import CorruptCheckpointError, read_meta_properties, read_partition_metadata
from ..storage.config import LogConfig
from ..storage.files import Files
from ..storage.manager import DataDirectoryError, LogManager
from ..storage.paths import TopicPartition
from .config import NO_TEXTS, BrokerConfig, StaticConfig, Texts, static_config
from .properties import Properties
from .topics import Partition, Topic

if TYPE_CHECKING:
    from .broker import Broker

log = logging.getLogger("ottla.opening")


def open_store(broker: Broker) -> tuple[LogManager, Catalog]:
    """Lock and load the data directories, and fill `broker.topics`. Blocks; for a worker thread.

    Raises:
        DataDirectoryError, CatalogError: One clear line. The directories are unlocked and as they were.
        OSError: The disk refused.
    """
    config, files, now_ms = broker.config, broker.files, broker.clock.now_ms()
    _look_first(files, config)
    logs = LogManager(
        files,
        config.data_dirs,
        node_id=config.node_id,
        producer_expiration_ms=config.producer_id_expiration_ms,
        rng=broker.rng,
        note=lambda line: log.warning("%s", line),
    )
    try:
        home = _home(files, logs.data_dirs)
        catalog = Catalog.load(files, home)
        state = catalog.state if catalog else _first_state(broker, logs)
        if catalog:
            _put_strays_aside(files, logs.data_dirs, state.topics, broker.rng)
        log_configs = {entry.name: _log_config(config, entry) for entry in state.topics.values()}
        logs.load(
            now_ms,
            broker.clock.elapsed_ms(),
            cluster_id=state.cluster_id,
            config_for=lambda name: log_configs.get(name, config.log_defaults),
        )
        catalog = catalog or Catalog.create(files, home, state)
        for entry in state.topics.values():
            broker.topics.add(_topic(broker, logs, entry, log_configs[entry.name]))
    except BaseException:
        logs.release()
        raise
    return logs, catalog


def _look_first(files: Files, config: BrokerConfig) -> None:
    """Refuse what cannot be served before anything is made in any of the data directories.

    A glance without their locks: opening them looks again.
    """
    catalog = Catalog.load(files, _home(files, config.data_dirs))
    for data_dir in config.data_dirs:
        try:
            identity = read_meta_properties(files, data_dir)
        except OSError as error:
            raise DataDirectoryError(f"data directory {data_dir}: {error}") from error
        if identity is None:
            continue
        if identity.node_id != config.node_id:
            raise DataDirectoryError(
                f"data directory {data_dir} belongs to node {identity.node_id}, node.id is {config.node_id}"
            )
        if catalog is not None and identity.cluster_id != catalog.cluster_id:
            raise DataDirectoryError(
                f"data directory {data_dir} belongs to cluster {identity.cluster_id}, {paths.CATALOG_FILE} is of"
                f" cluster {catalog.cluster_id}"
            )


def _home(files: Files, data_dirs: Sequence[str]) -> str:
    """The data directory that holds the catalog: the first, unless one was put before it since."""
    holds = (data_dir for data_dir in data_dirs if files.exists(paths.join(data_dir, paths.CATALOG_FILE)))
    return next(holds, data_dirs[0])


def static_config_with_stored_id(
    files: Files,
    *,
    profile: str,
    file: Properties | None = None,
    flags: Texts = NO_TEXTS,
    overrides: Texts = NO_TEXTS,
    nodes: int | None = None,
) -> StaticConfig:
    """As `static_config`; where no source names a node id, the one that the data directory belongs to.

    So that a directory of another broker, Apache Kafka's for example, is served without looking its id up first.

    Raises:
        ConfigError: as `static_config`.
    """
    config = static_config(profile=profile, file=file, flags=flags, overrides=overrides, nodes=nodes)
    named = [*flags, *overrides, *(file.values if file else ())]
    if "node.id" not in named and "broker.id" not in named:
        first = config.node(config.node_ids[0])
        stored = [_stored_node_id(files, data_dir) for data_dir in first.data_dirs]
        adopted = next((node_id for node_id in stored if node_id is not None), first.node_id)
        if adopted != first.node_id:
            flags = {**flags, "node.id": str(adopted)}
            return static_config(profile=profile, file=file, flags=flags, overrides=overrides, nodes=nodes)
    return config


def _stored_node_id(files: Files, data_dir: str) -> int | None:
    """The node id that `data_dir` belongs to; None for a new directory, or one that cannot be read."""
    try:
        identity = read_meta_properties(files, data_dir)
    except (OSError, CorruptCheckpointError):
        return None  # Opening it will say what is wrong.
    return identity.node_id if identity else None


def _first_state(broker: Broker, logs: LogManager) -> CatalogState:
    """What the catalog of a directory without one has to say."""
    static, files = broker.static, broker.files
    stored = logs.stored_cluster_id
    cluster_id = stored or static.cluster_id or _new_cluster_id(broker.rng)
    for data_dir in logs.data_dirs:
        if files.is_dir(paths.join(data_dir, paths.partition_dir_name(paths.CLUSTER_METADATA_TOPIC, 0))):
            # Loaded where it is needed: its record classes would slow every other start down.
            from ..storage.cluster_metadata import ClusterMetadataError, read_cluster_metadata

            try:
                state = read_cluster_metadata(files, data_dir, cluster_id=cluster_id)
            except ClusterMetadataError as error:
                raise DataDirectoryError(str(error)) from error
            if state is not None:
                log.info("taking over %d topic(s) from Apache Kafka's metadata in %s", len(state.topics), data_dir)
                return state
    return CatalogState(cluster_id, topics=_topics_of_directories(files, logs.data_dirs, static.node_ids, broker.rng))


def _new_cluster_id(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def _topics_of_directories(
    files: Files, data_dirs: Iterable[str], node_ids: tuple[int, ...], rng: random.Random
) -> dict[str, TopicEntry]:
    """Topics as the partition directories alone tell them: each as large as its highest partition."""
    ids: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for topic_partition, directory in _partition_dirs(files, data_dirs):
        name, index = topic_partition
        counts[name] = max(counts.get(name, 0), index + 1)
        topic_id = _topic_id(files, directory)
        if topic_id is not None:
            ids.setdefault(name, topic_id)
    return {
        name: TopicEntry(
            name,
            ids.get(name) or rng.randbytes(16),
            tuple(
                PartitionEntry((node_ids[index % len(node_ids)],), node_ids[index % len(node_ids)])
                for index in range(count)
            ),
        )
        for name, count in counts.items()
    }


def _partition_dirs(files: Files, data_dirs: Iterable[str]) -> Iterable[tuple[TopicPartition, str]]:
    for data_dir in data_dirs:
        for name in files.list(data_dir):
            found = paths.parse_partition_dir(name)
            directory = paths.join(data_dir, name)
            is_ours = isinstance(found, TopicPartition) and found.topic != paths.CLUSTER_METADATA_TOPIC
            if is_ours and files.is_dir(directory):
                assert isinstance(found, TopicPartition)
                yield found, directory


def _topic_id(files: Files, directory: str) -> bytes | None:
    try:
        return read_partition_metadata(files, directory)
    except CorruptCheckpointError as error:
        log.warning("%s; the catalog knows the topic's id", error)
        return None


def _put_strays_aside(
    files: Files, data_dirs: Iterable[str], topics: Mapping[str, TopicEntry], rng: random.Random
) -> None:
    """Rename partition directories that the catalog does not know, so that nothing appends to them."""
    for topic_partition, directory in list(_partition_dirs(files, data_dirs)):
        entry = topics.get(topic_partition.topic)
        known = entry is not None and topic_partition.partition < len(entry.partitions)
        topic_id = _topic_id(files, directory)
        if known and entry is not None and topic_id in (None, entry.topic_id):
            continue
        aside = paths.join(paths.parent(directory), paths.stray_dir_name(*topic_partition, rng.randbytes(16).hex()))
        log.warning("%s belongs to no topic of the catalog; it is kept as %s", directory, aside)
        files.rename(directory, aside)
        files.sync_dir(paths.parent(directory))


def _log_config(config: BrokerConfig, entry: TopicEntry) -> LogConfig:
    """What the topic's logs run with; stored overrides that this version refuses are left out, with a line each."""
    log_config, problems = LogConfig.from_stored(entry.configs, config.log_defaults)
    for problem in problems:
        log.warning("stored config of topic %s: %s", entry.name, problem)
    return log_config


def _topic(broker: Broker, logs: LogManager, entry: TopicEntry, config: LogConfig) -> Topic:
    topic = Topic(entry.name, entry.topic_id)
    for index, stored in enumerate(entry.partitions):
        topic_partition = TopicPartition(entry.name, index)
        partition_log = logs.logs.get(topic_partition) or logs.create(
            topic_partition,
            topic_id=entry.topic_id,
            config=config,
            now_ms=broker.clock.now_ms(),
            elapsed_ms=broker.clock.elapsed_ms(),
        )
        routed = _routable(stored, index, broker.live_node_ids())
        # What the log has seen holds even where the catalog knows less (it was made from directories).
        epoch = max(routed.leader_epoch, partition_log.leader_epochs.latest_epoch)
        topic.partitions.append(Partition(topic, index, replace(routed, leader_epoch=epoch), partition_log))
    return topic


def _routable(stored: PartitionEntry, index: int, node_ids: list[int]) -> PartitionEntry:
    """The assignment on the nodes that there are now: a start with fewer nodes must not leave a partition without."""
    replicas = tuple(node_id for node_id in stored.replicas if node_id in node_ids)
    if not replicas:
        replicas = (node_ids[index % len(node_ids)],)
    leader = stored.leader if stored.leader in replicas else replicas[0]
    return PartitionEntry(replicas, leader, stored.leader_epoch)
