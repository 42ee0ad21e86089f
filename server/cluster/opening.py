"""Opening of the data directories: their owner, their topics, and the comparison with the catalog.

Possible contents, and their handling:

    ottla.json                      the catalog: topics, ids, configs as acknowledged to clients
    no catalog, Apache Kafka's      the catalog is made from its metadata log, which is only read
        __cluster_metadata-0
    no catalog, no meta.properties  names, ids and numbers of partitions come from the directories
    a topic without its directory   it was being created, or had no appends: it gets an empty log
    a directory without its topic   see `storage.data_dirs.partition_dirs`
    not all directories             see `storage.data_dirs.inspection`

Everything is checked twice: before the locks are taken, so that a refusal leaves not even a lock file, and under the locks.
"""

from __future__ import annotations

import base64
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...storage.data_dirs import exchange
from ...storage.data_dirs.data_dir import holding
from ...storage.data_dirs.inspection import FoundDirectory, check, check_assigned, home_of, inspect_dirs, unique
from ...storage.data_dirs.making import NewLogs
from ...storage.data_dirs.manager import LogManager
from ...storage.data_dirs.partition_dirs import Assigned, assign, check_put_aside, topics_of
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, read_meta_properties
from ...storage.disk.files import Files
from ...storage.disk.health import DataDirectoryError
from ...storage.disk.paths import TopicPartition
from ...storage.topics.catalog import Catalog
from ...storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from ...storage.topics.config import LogConfig
from ...storage.topics.entries import Entries
from ..config.broker_config import NO_TEXTS, BrokerConfig, Texts
from ..config.features import METADATA_VERSION, SUPPORTED
from ..config.live_config import first_broker_configs, resolve
from ..config.properties import Properties
from ..config.static_config import StaticConfig, static_config
from ..partitions.topics import Partition, Topic, Topics
from ..quotas.entities import Entity, facts_of
from ..quotas.table import SECTION as QUOTAS
from ..runtime.clock import Clock
from .partition_logs import promised

if TYPE_CHECKING:  # Its record classes would slow every start down.
    from ...storage.topics.client_records import ClientRecords

log = logging.getLogger("ottla.opening")


class Start(NamedTuple):
    """Inputs of a start."""

    static: StaticConfig
    config: BrokerConfig
    """Options of the first node, without dynamic configs."""
    files: Files
    clock: Clock
    rng: random.Random
    next_producer_id: int = 0
    """Lowest producer id that may be given out: an earlier run of the broker in this process may have used the ids below."""


class OpenStore(NamedTuple):
    """Contents of the opened data directories."""

    logs: LogManager
    catalog: Catalog
    topics: Topics


def open_store(start: Start) -> OpenStore:
    """Lock and load the data directories, and find their topics. It blocks, and must run in a worker thread.

    A directory on a failed disk is left out, if the catalog is in another one; partitions that are in no other directory are
    offline then.

    Raises:
        DataDirectoryError: The message is one line. The directories are unlocked and unchanged.
        OSError: The disk refused.
    """
    failed: dict[str, str] = {}
    first: DataDirectoryError | None = None
    while True:
        try:
            return _open_store(start, failed)
        except DataDirectoryError as error:
            path = error.failed_path
            if path is None or len(failed) + 1 == len(unique(start.config.data_dirs)):
                if first is None:
                    raise
                raise first  # noqa: B904 -- it has its own cause, which callers read
            first = first or error
            failed[path] = str(error)
            log.error("%s; it is offline, all other logs are served", error)


def _open_store(start: Start, failed: Mapping[str, str]) -> OpenStore:
    config, files, now_ms, topics = start.config, start.files, start.clock.now_ms(), Topics()
    working = [path for path in unique(config.data_dirs) if path not in failed]
    _end_exchange(files, working)
    _survey(start, working, failed, is_glance=True)
    logs = LogManager(
        files,
        config.data_dirs,
        failed=failed,
        node_id=config.node_id,
        rng=start.rng,
        note=_warn,
    )
    try:
        survey = _survey(start, working, failed)
        state, catalog = survey.state, survey.catalog
        # With dynamic configs: a load needs them to expire producers, and to sync logs with `flush.messages`.
        config, _ = resolve(start.static, state.broker_configs, config.node_id)
        logs.set_producer_expiration(config.producer_id_expiration_ms)
        log_configs = {entry.name: _log_config(config, entry) for entry in state.topics.values()}
        survey.assigned.apply(files, start.rng, _warn)
        logs.load(
            now_ms,
            start.clock.elapsed_ms(),
            config_for=lambda each: (
                log_configs[each.topic] if _is_known(state, each) and each not in survey.assigned.undecided else None
            ),
            topic_id_of=lambda name: state.topics[name].topic_id,  # as `assigned` has found or created it
        )

        def write_catalog(directories: Mapping[str, str]) -> None:
            nonlocal catalog
            kept = {which: path for which, path in (state.directories or {}).items() if path in failed}
            directories = {**kept, **directories}
            if catalog is None:
                dynamic = state.broker_configs or first_broker_configs(start.static, state.features)
                made = replace(state, directories=directories, broker_configs=dynamic)
                catalog = Catalog.create(files, survey.home, made)
            else:
                catalog.set_directories(directories)

        logs.claim(survey.home, state.cluster_id, write_catalog)
        assert catalog is not None
        if catalog.state.next_producer_id <= _highest_producer_id(logs):
            # The catalog is from a backup; or a client has invented ids, which must not limit those of the broker.
            catalog.skip_producer_ids(now_ms)
        catalog.skip_producer_ids(start.next_producer_id)
        catalog.on_doubt = logs.take_offline
        _complete(start, logs, state, log_configs)
        for entry in state.topics.values():
            topics.add(_topic(start, logs, entry))
    except BaseException:
        logs.release()
        raise
    return OpenStore(logs, catalog, topics)


def _end_exchange(files: Files, data_dirs: Sequence[str]) -> None:
    """Complete a reset or restore that was decided when the process died, before the contents are read."""
    for each in data_dirs:
        try:
            files.check_data_dir(each)
            for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN):
                files.check_entry(paths.join(each, name))  # made by another user, it would remove all data
        except OSError as error:
            raise DataDirectoryError.from_error(each, error) from error
    try:
        if exchange.is_unfinished(files, data_dirs):
            log.warning("data directories %s: completing an interrupted reset or restore", ", ".join(data_dirs))
            with holding(files, data_dirs):
                exchange.finish(files, data_dirs)
    except OSError as error:
        raise DataDirectoryError(f"data directories {', '.join(data_dirs)}: {error}") from error


class _Survey(NamedTuple):
    """Contents of the directories, and the planned changes; nothing is changed yet."""

    home: str
    """Directory of the catalog."""
    catalog: Catalog | None
    """The catalog; None if it must be created, with `state`."""
    state: CatalogState
    assigned: Assigned


def _survey(start: Start, data_dirs: Sequence[str], failed: Mapping[str, str], *, is_glance: bool = False) -> _Survey:
    """Check everything, and refuse directories that cannot be served.

    Args:
        is_glance: Whether only a refusal matters: then broken parts are not logged, and no more is read than necessary.

    Raises:
        DataDirectoryError: The message is one line.
    """
    files = start.files
    note: Callable[[str], None] = (lambda _: None) if is_glance else _warn
    found = inspect_dirs(files, data_dirs)
    home = home_of(found)
    try:
        check(files, found, start.config.node_id, failed)
        state = home.catalog.state if home.catalog is not None else _first_state(start, found, note)
        if home.catalog is not None and not failed:
            check_put_aside(files, found, state.topics)
        assigned = assign(files, found, state.topics, note, failed=failed, only_doubles=is_glance)
        return _Survey(home.path, home.catalog, state, assigned)
    except OSError as error:
        raise DataDirectoryError(f"data directories {', '.join(data_dirs)}: {error}") from error


def _is_known(state: CatalogState, topic_partition: TopicPartition) -> bool:
    entry = state.topics.get(topic_partition.topic)
    return entry is not None and topic_partition.partition < len(entry.partitions)


def _warn(line: str) -> None:
    log.warning("%s", line)


def static_config_with_stored_id(
    files: Files,
    *,
    profile: str,
    file: Properties | None = None,
    flags: Texts = NO_TEXTS,
    overrides: Texts = NO_TEXTS,
    nodes: int | None = None,
    emulate: str | None = None,
) -> StaticConfig:
    """Return `static_config`; if no source sets a node id, with the id of the data directory's owner.

    So a directory of another broker, e.g. of Apache Kafka, is served without looking up its id.

    Raises:
        ConfigError: as `static_config`.
    """
    config = static_config(profile=profile, file=file, flags=flags, overrides=overrides, nodes=nodes, emulate=emulate)
    named = [*flags, *overrides, *(file.values if file else ())]
    if "node.id" not in named and "broker.id" not in named:
        first = config.node(config.node_ids[0])
        stored = [_stored_node_id(files, data_dir) for data_dir in first.data_dirs]
        adopted = next((node_id for node_id in stored if node_id is not None), first.node_id)
        if adopted != first.node_id:
            flags = {**flags, "node.id": str(adopted)}
            return static_config(
                profile=profile, file=file, flags=flags, overrides=overrides, nodes=nodes, emulate=emulate
            )
    return config


def _stored_node_id(files: Files, data_dir: str) -> int | None:
    """Return the node id that `data_dir` belongs to; None for a new directory, or one that cannot be read."""
    try:
        identity = read_meta_properties(files, data_dir)
    except (OSError, CorruptCheckpointError):
        return None  # Opening it will report the problem.
    return identity.node_id if identity else None


def _first_state(start: Start, found: Sequence[FoundDirectory], note: Callable[[str], None]) -> CatalogState:
    """Return the first state of the catalog, for directories without a catalog."""
    static, files = start.static, start.files
    stored = next((each.identity.cluster_id for each in found if each.identity is not None), None)
    cluster_id = stored or static.cluster_id or _new_cluster_id(start.rng)
    for each in found:
        if each.has_metadata_log:
            # Imported only if needed: its record classes would slow down every other start.
            from ...storage.topics.cluster_metadata import replay_cluster_metadata

            replay = replay_cluster_metadata(files, each.path)
            if replay is not None:
                check_assigned(found, replay.directories_of(start.config.node_id))
                state = _with_clients(replay.state(cluster_id), replay.clients, each.path)
                log.info("loaded %d topic(s) from Apache Kafka's metadata in %s", len(state.topics), each.path)
                if (
                    METADATA_VERSION in state.features
                ):  # then the metadata has all levels: a level of 0 has no record, or none any more
                    state = replace(state, features={**dict.fromkeys(SUPPORTED, 0), **state.features})
                return state
    topics = _topics_of_directories(start, topics_of(files, found, note))
    # The producers' ids count from 0, and the last one is not known. A reused id would be taken for the earlier producer, and
    # its first batch for a duplicate.
    next_producer_id = max(start.clock.now_ms() if topics else 0, start.next_producer_id)
    return CatalogState(cluster_id, topics, next_producer_id=next_producer_id)


def _with_clients(state: CatalogState, records: ClientRecords, path: str) -> CatalogState:
    """Add the permissions and quotas of Apache Kafka's clients. Raises DataDirectoryError if some of them are not known
    here."""
    from ..security.taken_over import sections_of  # As the metadata log.

    try:
        sections = {**state.sections, **sections_of(records)}
    except ValueError as error:
        raise DataDirectoryError(f"Apache Kafka's metadata in {path}: {error}") from error
    quotas = {Entity(parts): values for parts, values in records.quotas.items()}
    if limits := {entity.key: of for entity, values in quotas.items() if (of := facts_of(entity, values)) is not None}:
        sections[QUOTAS] = limits
    return replace(state, sections={section: Entries.from_mapping(entries) for section, entries in sections.items()})


def _highest_producer_id(logs: LogManager) -> int:
    return max((state.producer_id for each in logs.logs.values() for state in each.producers), default=-1)


def _new_cluster_id(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def _topics_of_directories(start: Start, found: Mapping[str, tuple[int, bytes | None]]) -> dict[str, TopicEntry]:
    node_ids = start.static.node_ids
    return {
        name: TopicEntry(
            name,
            topic_id or start.rng.randbytes(16),
            tuple(
                PartitionEntry((node_ids[index % len(node_ids)],), node_ids[index % len(node_ids)])
                for index in range(count)
            ),
        )
        for name, (count, topic_id) in found.items()
    }


def _log_config(config: BrokerConfig, entry: TopicEntry) -> LogConfig:
    """Return the config of the topic's logs; stored overrides that this version refuses are left out, with a log line each."""
    log_config, problems = LogConfig.from_stored(entry.configs, config.log_defaults)
    for problem in problems:
        log.warning("stored config of topic %s: %s", entry.name, problem)
    return log_config


def _complete(start: Start, logs: LogManager, state: CatalogState, configs: Mapping[str, LogConfig]) -> None:
    """Add logs for all partitions without data."""
    wanted = []
    for entry in state.topics.values():
        named = [TopicPartition(entry.name, index) for index in range(len(entry.partitions))]
        if missing := [each for each in named if each not in logs.logs]:
            wanted.append(NewLogs(missing, entry.topic_id, configs[entry.name]))
    if logs.has_failed_dirs:
        for each in wanted:
            logs.add_offline(each.partitions, topic_id=each.topic_id, config=each.config)
    elif wanted:
        promised(logs, wanted, start.clock.now_ms(), start.clock.elapsed_ms())


def _topic(start: Start, logs: LogManager, entry: TopicEntry) -> Topic:
    topic = Topic(entry.name, entry.topic_id)
    live = [*start.static.node_ids]
    for index, stored in enumerate(entry.partitions):
        partition_log = logs.logs[TopicPartition(entry.name, index)]
        routed = _routable(stored, index, live)
        # The log's epoch counts even if the catalog has a lower one (it was made from directories).
        epoch = max(routed.leader_epoch, partition_log.leader_epochs.latest_epoch)
        topic.partitions.append(Partition(topic, index, routed._replace(leader_epoch=epoch), partition_log))
    return topic


def _routable(stored: PartitionEntry, index: int, node_ids: list[int]) -> PartitionEntry:
    """Return the assignment for the present nodes: a start with fewer nodes must not leave a partition without replicas."""
    replicas = tuple(node_id for node_id in stored.replicas if node_id in node_ids)
    if not replicas:
        replicas = (node_ids[index % len(node_ids)],)
    leader = stored.leader if stored.leader in replicas else replicas[0]
    return PartitionEntry(replicas, leader, stored.leader_epoch)
