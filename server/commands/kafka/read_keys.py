"""Search for keys by reading a topic, for `ottla erase` on any Kafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ....storage.disk.paths import TopicPartition
from ....storage.erasure.findings import Fate, Findings, Tally
from ....storage.erasure.key_matches import Match
from ....storage.erasure.places import Contents, KeyReport, Why
from ....storage.erasure.record_fates import not_compacted, versioned
from ....storage.erasure.search import NOT_SEEN
from ....storage.topics.versions import STRATEGY
from ...client.newest import versions_in
from ...client.values import Config, Record, Topic
from .asking import ClusterViews, readable_configs

_LIVE = Fate(Why.LIVE, "the newest value of its key: no clean pass removes it before a tombstone is written")
_SUPERSEDED = Fate(
    Why.READ_BY_CONSUMERS,
    "a newer record of its key exists: the first clean pass that covers both removes it, after the active segment has rolled,"
    " open transactions have ended, and min.compaction.lag.ms is over",
)
_TOMBSTONE = Fate(
    Why.TOMBSTONE_RETENTION,
    "a tombstone, which has the key only: a clean pass removes it when delete.retention.ms has passed since the first pass that"
    " covered it",
)
_POLICY = "cleanup.policy"
_FILES = (
    "Files of the brokers: only records that a consumer gets were read. `--data DIR` also searches replaced and deleted files in a"
    " data directory."
)


def read_keys(
    cluster: ClusterViews, topic: Topic, keys: Collection[bytes], now_ms: int, source: str, say: Callable[[str], None]
) -> KeyReport:
    """Read all records of a topic, also those of open and aborted transactions, and report those of these keys.

    Args:
        source: Name of the brokers in the report.
        say: Called with the progress.
    """
    found, fate_of_all = Findings(keys), _fate_of_all(readable_configs(cluster, topic.name))
    for partition in topic.partitions:
        of = TopicPartition(topic.name, partition.index)
        say(f"reading {of} …")
        path, count = f"{of} of {source}", 0
        newest: dict[bytes, Match] = {}
        older: dict[bytes, Tally] = {}
        for record in cluster.kafka.scan(topic.name, partition.index, isolation="read_uncommitted"):
            count += 1
            if record.key in keys:
                match = _match(record)
                if match.key in newest:
                    older.setdefault(match.key, Tally()).add(newest[match.key])
                newest[match.key] = match
        for key, tally in older.items():
            found.add(path, of, key, fate_of_all or _SUPERSEDED, tally)
        for key, match in newest.items():
            tally = Tally()
            tally.add(match)
            found.add(path, of, key, fate_of_all or (_LIVE if match.has_value else _TOMBSTONE), tally)
        found.add_file(path, Contents.RECORDS, 0, records=count)
    return found.report(topic.name, now_ms, [source], [_FILES, *NOT_SEEN])


def _fate_of_all(configs: Sequence[Config]) -> Fate | None:
    """Return the fate of each record in a topic with these options; None: it follows from the next newer record of its key."""
    values = {each.name: each.value or "" for each in configs}
    if "compact" not in (policy := values.get(_POLICY, "compact")).split(","):
        return not_compacted(policy)
    return None if versions_in(configs) is None else versioned(values[STRATEGY])


def _match(record: Record) -> Match:
    assert record.key is not None
    return Match(record.key, record.offset, record.value is not None, record.timestamp_ms)
