"""Search of all directories of a broker, and of its snapshots, for all that is left of some keys of a topic.

    search = Search(files, ["/data", "/backup/monday"], "orders", [b"17"], now_ms)
    report = to_the_end(search.steps())

A data directory is Ottla's or Apache Kafka's, with or without a running broker. In it, and next to it, these may have records of
the topic; everything else in it has none of a client's keys:

    orders-0/                              a log
    orders-0.<id>-delete|-future|-stray/   of a deletion, of a move, put aside
    ottla….<id>-delete/orders-0/           old or new content of an exchange, as are .ottla-next/ and .ottla-next-in/
    <data dir>.ottla-pipeline/<plan>/…     segments that Spark has made, and hard links to those that they have replaced

If the names of these directories change during a search, e.g. by a move, all of it begins again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, OffsetCheckpoint, read_meta_properties, read_text, uuid_text
from ..disk.files import Files
from ..disk.health import DataDirectoryError
from ..disk.paths import MovingDir, TopicPartition
from ..logs.staged_segment import MANIFEST_FILE
from ..steps import Steps, to_the_end
from ..topics.catalog import Catalog
from ..topics.catalog_file import CatalogState
from ..topics.cluster_metadata import read_cluster_metadata
from ..topics.config import COMPACT, LogConfig
from ..topics.stored_configs import topic_configs_in
from .findings import Fate, Findings
from .log_search import LOOKS_MAX, LogSearch
from .places import KeyReport, Why
from .record_fates import LogState

_BY_ROLE: Mapping[str, Fate] = {
    "delete": Fate(
        Why.DELETED_PARTITION,
        "the partition, or the whole content, was deleted: the broker removes this directory after file.delete.delay.ms, or at"
        " its next start",
    ),
    "future": Fate(
        Why.FUTURE_PARTITION,
        "an unfinished copy of a move between data directories: it becomes the log, or the next start of the broker removes it",
    ),
    "stray": Fate(
        Why.STRAY_PARTITION, "the directory was put aside, and no broker serves or removes it: remove it by hand"
    ),
}
_NEXT_CONTENT = Fate(
    Why.NEXT_CONTENT, "new content of a restore or a reset that was not finished: the broker's next start finishes it"
)
_STAGED = Fate(
    Why.STAGED,
    "a compaction by Spark has made or replaced this file, and keeps it: remove the directory of the plan when the"
    " compaction is installed",
)
_SNAPSHOT = Fate(
    Why.SNAPSHOT,
    "a snapshot that was made earlier: it stays until the snapshot is deleted, and `ottla restore` brings it back",
)

SHOWN_MAX = 10
"""Maximum number of names in a sentence."""
_DEEPEST = 3
"""Levels of directories that a plan of a compaction has."""
_STAGED_NAMES = frozenset({MANIFEST_FILE, "installed"})

NOT_SEEN = (
    "Replicas on other brokers.",
    "Copies that are not in the sources: backups, snapshots, tiered storage, exports, and what consumers have stored.",
    "Blocks that the file system has freed: the bytes of a removed file stay on the disk until they are overwritten.",
    "Other topics, e.g. those for rejected records, and records of this topic under other keys or without a key.",
    "Records that were written after the search.",
)
"""Sentences on what no search of directories can see."""


class SearchedPartition(NamedTuple):
    """A directory with records of the topic."""

    directory: str
    of: TopicPartition
    fate: Fate | None
    """None for a log."""
    data_dir: str


class Search:
    """A search for keys. Only reads; any thread may run the steps."""

    def __init__(
        self,
        files: Files,
        sources: Sequence[str],
        topic: str,
        keys: Iterable[bytes],
        now_ms: int,
        *,
        config: LogConfig | None = None,
        states: Mapping[TopicPartition, LogState] | None = None,
        partitions: Collection[int] | None = None,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            sources: Data directories, and snapshots of them.
            now_ms: Time of the broker; delete horizons are compared with it.
            config: Options of the topic; None: those of the catalog in the sources.
            states: What a running broker knows of its logs; without it the checkpoints decide.
            partitions: Numbers of the partitions that have had records: without their logs nothing is proven. None: all of the
                catalog if that is Apache Kafka's. A broker of Ottla makes a directory with the first record.
            pause: Called before something is searched again because it has changed.
        """
        self._files = files
        self._sources = sources
        self._topic = topic
        self._keys = frozenset(keys)
        self._now_ms = now_ms
        self._config = config
        self._states = states or {}
        self._required = partitions
        self._pause = pause
        self._catalog: CatalogState | None = None
        self._node_id: int | None = None
        self._directory_ids: set[str] = set()
        self._catalog_ids: set[str] = set()
        """IDs of the data directories that have the catalogs of the sources."""
        self._problem = "no catalog in the sources has it"
        self._unknown: dict[str, None] = {}
        """Directories in data directories that are not a broker's, in order."""

    def steps(self) -> Steps[KeyReport]:
        """Search all sources; yield after each batch. What cannot be read is in the report."""
        return (yield from self._rounds(_one_by_one))

    def report_by(self, run: Callable[[Sequence[LogSearch]], Sequence[Findings]]) -> KeyReport:
        """Search all sources, each directory in a call of the caller's.

        Args:
            run: Returns the result of `LogSearch.steps` of each, or raises FileNotFoundError if one does. Their copies may be
                run anywhere.
        """

        def work(searches: Sequence[LogSearch]) -> Steps[Sequence[Findings]]:
            yield
            return run(searches)

        return to_the_end(self._rounds(work))

    def _rounds(self, work: Callable[[Sequence[LogSearch]], Steps[Sequence[Findings]]]) -> Steps[KeyReport]:
        found, before = Findings(self._keys), list[SearchedPartition]()
        for _ in range(LOOKS_MAX):
            found = Findings(self._keys)
            before = self._partitions(found)
            try:
                for each in (yield from work(self._searches(before))):
                    found.merge(each)
            except FileNotFoundError:
                self._pause()
                continue
            if self._partitions(Findings(self._keys)) == before:
                break
            self._pause()
        else:
            found.add_unread(", ".join(self._sources), "directories were moved or deleted during each search")
        if not self._states and not found.is_anything_searched:
            found.add_unread(", ".join(self._sources), f"no log of topic {self._topic} found")
        if missing := self._without_log(before, self._required):
            found.add_unread(
                ", ".join(self._sources), f"partitions of the topic that have no log here: {_some(missing)}"
            )
        if absent := self._absent_directories():
            found.add_unread(
                ", ".join(self._sources),
                f"data directories of the same broker that are not in the sources: {_some(absent)}",
            )
        return found.report(self._topic, self._now_ms, self._sources, self._not_seen(before))

    def _absent_directories(self) -> list[str]:
        """Return the broker's data directories that are not in the sources, by their paths or, without its catalog, by ID."""
        known = {} if self._catalog is None else self._catalog.directories or {}
        wanted = dict.fromkeys(self._catalog_ids) | dict(known)
        return [
            path or directory_id for directory_id, path in wanted.items() if directory_id not in self._directory_ids
        ]

    def _searches(self, partitions: Sequence[SearchedPartition]) -> list[LogSearch]:
        checkpoints: dict[tuple[str, str], Mapping[TopicPartition, int]] = {}
        config = self._known_config() or LogConfig(cleanup_policy=(COMPACT,))
        searches = []
        for each in partitions:
            state = self._states.get(each.of)
            if state is None and each.fate is None:
                for name in (paths.CLEANER_CHECKPOINT, paths.LOG_START_CHECKPOINT):
                    if (each.data_dir, name) not in checkpoints:
                        checkpoints[each.data_dir, name] = self._checkpoint(each.data_dir, name)
                state = LogState(
                    config=config,
                    clean_below=checkpoints[each.data_dir, paths.CLEANER_CHECKPOINT].get(each.of),
                    log_start_offset=checkpoints[each.data_dir, paths.LOG_START_CHECKPOINT].get(each.of, 0),
                )
            searches.append(
                LogSearch(
                    self._files,
                    each.directory,
                    each.of,
                    self._keys,
                    self._now_ms,
                    state=state,
                    fate=each.fate,
                    no_keys=_STAGED_NAMES if each.fate is _STAGED else frozenset(),
                    pause=self._pause,
                )
            )
        return searches

    def _checkpoint(self, data_dir: str, name: str) -> Mapping[TopicPartition, int]:
        try:
            return OffsetCheckpoint(self._files, paths.join(data_dir, name)).read()
        except CorruptCheckpointError:
            return {}

    # Directories

    def _partitions(self, found: Findings) -> list[SearchedPartition]:
        """Return all directories that may have records of the topic, as they are named now."""
        listed: list[SearchedPartition] = []
        for source in self._sources:
            try:
                listed += self._in_source(source, found)
            except OSError as error:
                found.add_unread(error.filename or source, f"cannot be read: {error.strerror or error}")
        return listed

    def _in_source(self, source: str, found: Findings) -> Iterator[SearchedPartition]:
        files = self._files
        if not files.is_dir(source):
            found.add_unread(source, "directory not found")
        elif files.exists(paths.join(source, paths.SNAPSHOT_FILE)):
            for name in files.list(source):
                if name.isdecimal():
                    yield from self._logs_in(paths.join(source, name), _SNAPSHOT)
        elif not files.exists(paths.join(source, paths.META_PROPERTIES)):
            found.add_unread(source, f"neither a data directory nor a snapshot: {paths.META_PROPERTIES} not found")
        else:
            self._read_catalog(source)
            yield from self._in_data_dir(source)
            yield from self._in_staging(paths.staging_root(source), found)

    def _in_data_dir(self, data_dir: str) -> Iterator[SearchedPartition]:
        for name in self._files.list(data_dir):
            directory, parsed = paths.join(data_dir, name), paths.parse_partition_dir(name)
            if name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN):
                yield from self._logs_in(directory, _NEXT_CONTENT)
            elif not self._files.is_dir(directory):
                continue
            elif parsed is None:
                self._unknown[directory] = None
            elif isinstance(parsed, MovingDir):
                of, fate = parsed.topic_partition, _BY_ROLE[parsed.role]
                is_cut = len(name) == paths.FILE_NAME_CHARACTERS_MAX and self._topic.startswith(of.topic)
                if of.topic == self._topic or is_cut:
                    yield SearchedPartition(directory, TopicPartition(self._topic, of.partition), fate, data_dir)
                else:
                    yield from self._logs_in(directory, fate)
            elif parsed.topic == self._topic:
                yield SearchedPartition(directory, parsed, None, data_dir)

    def _logs_in(self, directory: str, fate: Fate) -> Iterator[SearchedPartition]:
        """Yield the directories of the topic's logs in a directory that no broker serves."""
        if not self._files.is_dir(directory):
            return
        for name in self._files.list(directory):
            parsed, path = paths.parse_partition_dir(name), paths.join(directory, name)
            if isinstance(parsed, TopicPartition) and parsed.topic == self._topic and self._files.is_dir(path):
                yield SearchedPartition(path, parsed, fate, directory)

    def _in_staging(self, root: str, found: Findings) -> Iterator[SearchedPartition]:
        if not self._files.is_dir(root):
            return
        for name in self._files.list(root):
            plan = paths.join(root, name)
            if not self._files.is_dir(plan):
                continue
            try:
                fields = json.loads(read_text(self._files, paths.join(plan, _PLAN_FILE)) or "null")
                of = TopicPartition(str(fields["topic"]), int(fields["partition"]))
            except (CorruptCheckpointError, ValueError, KeyError, TypeError):
                found.add_unread(plan, f"not searched: {_PLAN_FILE} does not say which topic it is about")
                continue
            if of.topic == self._topic:
                yield from self._staged(plan, of, _DEEPEST)

    def _staged(self, directory: str, of: TopicPartition, levels: int) -> Iterator[SearchedPartition]:
        names = self._files.list(directory)
        if any(name.endswith(paths.LOG) for name in names):
            yield SearchedPartition(directory, of, _STAGED, directory)
        for name in names if levels else ():
            if self._files.is_dir(paths.join(directory, name)):
                yield from self._staged(paths.join(directory, name), of, levels - 1)

    # Options

    def _read_catalog(self, data_dir: str) -> None:
        try:
            identity = read_meta_properties(self._files, data_dir)
            if identity is not None and identity.directory_id is not None:
                self._directory_ids.add(uuid_text(identity.directory_id))
            if identity is not None and identity.catalog_id is not None:
                self._catalog_ids.add(uuid_text(identity.catalog_id))
            if self._catalog is not None:
                return
            catalog = Catalog.load(self._files, data_dir)
            if catalog is not None:
                self._catalog = catalog.state
            else:
                self._catalog = read_cluster_metadata(self._files, data_dir, cluster_id="")
                if self._required is None and self._catalog is not None and self._topic in self._catalog.topics:
                    self._required = range(len(self._catalog.topics[self._topic].partitions))
        except (DataDirectoryError, CorruptCheckpointError) as error:
            self._problem = f"{error}"
            return
        self._node_id = None if identity is None else identity.node_id

    def _known_config(self) -> LogConfig | None:
        if self._config is not None:
            return self._config
        if self._catalog is None or self._topic not in self._catalog.topics:
            return None
        return LogConfig.from_stored(topic_configs_in(self._catalog, self._node_id, self._topic))[0]

    def _not_seen(self, partitions: Sequence[SearchedPartition]) -> Iterator[str]:
        yield from NOT_SEEN
        if self._known_config() is None:
            yield (
                f"The options of the topic ({self._problem}): reasons and times are those of Kafka's defaults with"
                " cleanup.policy=compact."
            )
        elif self._config is None:
            yield "Options that only the broker's configuration file sets: reasons and times assume the defaults."
        if self._unknown:
            yield f"Directories in the data directories that are not a broker's: {_some(self._unknown)}."
        entry = None if self._catalog is None else self._catalog.topics.get(self._topic)
        numbers = range(len(entry.partitions)) if entry is not None and self._required is None else ()
        if missing := self._without_log(partitions, numbers):
            yield f"Partitions of the topic that have no log in the sources: {_some(missing)}."

    @staticmethod
    def _without_log(partitions: Iterable[SearchedPartition], numbers: Iterable[int] | None) -> list[str]:
        """Return those of the numbers that are of no log in the sources, e.g. as other brokers have them."""
        here = {each.of.partition for each in partitions if each.fate is None}
        return [str(number) for number in numbers or () if number not in here]


def _some(names: Collection[str]) -> str:
    return ", ".join(islice(names, SHOWN_MAX)) + (", …" if len(names) > SHOWN_MAX else "")


_PLAN_FILE = "plan.json"
"""File of `pipeline.compaction.staging` that names the log of a plan."""


def _one_by_one(searches: Sequence[LogSearch]) -> Steps[Sequence[Findings]]:
    found = []
    for each in searches:
        found.append((yield from each.steps()))
    return found
