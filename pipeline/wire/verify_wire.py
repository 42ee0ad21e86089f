"""`ottla-spark verify --bootstrap`: whether a topic is compacted as promised, or two topics are equal, key by key.

The topic is read once, from its first offset to the last stable one, both as of the start. Two compared topics are both read
again if something differs. Between tasks only `key_rows` are moved, for each key from each task that has read it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...storage.topics.versions import BY_OFFSET, STRATEGY
from ..errors import SourceChangedError, UsageError
from ..records.versions import check_goes_by_offset
from ..verify.findings import FINDINGS_MAX, Finding
from .cluster import WireCluster
from .compacted import Known, findings_of, judge_topic
from .differences import SideName, difference, has_moved
from .equal import HERE, THERE, FirstLook, KeyComparison, Side, compare, versions_of
from .scanned import Scan
from .topics import KafkaTopics, WireTopic, reading_errors
from .wire_report import WirePartition, WireReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASS_MS = 3_600_000
"""Time allowed for a pass after max.compaction.lag.ms."""
_LAG_NONE = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WireQuestion:
    """Options of `verify` for topics over the wire."""

    cluster: WireCluster
    topic: str
    partition: int | None = None
    against: WireCluster | None = None
    against_topic: str | None = None
    headers: bool = False
    """Whether headers are compared as part of a value."""
    every_version: bool = False
    clean_end: int | Mapping[int, int] | None = None
    """Offset below which the topic is compacted, according to the caller; for each partition, or one for all."""
    no_transactions: bool = False
    cleaned_within_ms: int | None = None
    """Time after its timestamp by which each record is cleaned, according to the caller."""

    @property
    def compared_topic(self) -> tuple[WireCluster, str] | None:
        """Cluster and name of the topic to compare with, if any."""
        if self.against is None and self.against_topic is None:
            return None
        return self.against or self.cluster, self.against_topic or self.topic


def clean_end_of(text: str) -> int | dict[int, int]:
    """Parse an offset, or one for each partition: {"0": 4711}. Raises ValueError for anything else."""
    found = json.loads(text)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    if isinstance(found, dict) and all(type(each) is int and each >= 0 for each in found.values()):
        return {int(partition): offset for partition, offset in found.items()}
    raise ValueError(text)


def verify_wire(spark: SparkSession, asked: WireQuestion, *, now_ms: int) -> WireReport:
    """Judge a topic, or compare two.

    Raises:
        UsageError: The session has no connector, a topic does not exist or may not be read, or an option does not fit.
        SourceChangedError: Records were deleted, or all keys that differ are being written.
        PipelineError: A Kafka does not answer, or a job failed for another reason.
    """
    if asked.compared_topic is None:
        return _verify_alone(spark, asked, now_ms)
    return _verify_against(spark, asked, *asked.compared_topic)


def _verify_alone(spark: SparkSession, asked: WireQuestion, now_ms: int) -> WireReport:
    with closing(KafkaTopics(spark, asked.cluster)) as topics:
        now = _described(topics, asked.topic, asked.partition)
        known, notes = _find_compacted(topics, now, asked, now_ms)
        scan = Scan(cluster=asked.cluster, topic=asked.topic, ranges=now.partitions)
        with reading_errors(f"{asked.topic} at {asked.cluster.bootstrap}"):
            judged = judge_topic(spark, scan, known, by_gaps=asked.no_transactions)
        wanted = [(partition, offset) for partition, each in judged.items() for _, offset, _ in each.places]
        keys = topics.keys_at(asked.topic, wanted[:FINDINGS_MAX])
    partitions = []
    for partition, each in judged.items():
        own = {offset: key for (of, offset), key in keys.items() if of == partition}
        partitions.append(
            WirePartition(
                topic=asked.topic,
                partition=partition,
                records=each.seen.records,
                finding_count=each.finding_count,
                findings=findings_of(each, SideName(asked.topic, asked.cluster.bootstrap).describe(partition), own),
                start_offset=now.partitions[partition].start,
                end_offset=now.partitions[partition].end,
                keys=each.keys.keys,
                tombstones=each.seen.tombstones,
                clean_end=each.clean_end,
                clean_end_because=each.because,
                compacted_up_to=each.compacted_up_to,
            )
        )
    if asked.no_transactions and not any(each.clean_end for each in partitions):
        notes.append("no offset is missing, so no cleaner has run yet: nothing was judged as compacted")
    elif not any(each.clean_end for each in partitions):
        notes.append(
            "the cleaner's position is not known over the wire, so nothing was judged as compacted: give --clean-end,"
            " --no-transactions or --cleaned-within"
        )
    return WireReport(mode=f"over the wire, {asked.cluster.bootstrap}", partitions=partitions, notes=notes)


def _described(topics: KafkaTopics, topic: str, partition: int | None) -> WireTopic:
    now = topics.describe(topic)
    check_goes_by_offset(topic, (now.configs or {}).get(STRATEGY, BY_OFFSET), "verify --bootstrap")
    if partition is None:
        return now
    if partition not in now.partitions:
        raise UsageError(f"{topic} has partitions 0 to {max(now.partitions)}, not {partition}")
    return now._replace(partitions={partition: now.partitions[partition]})


def _find_compacted(
    topics: KafkaTopics, now: WireTopic, asked: WireQuestion, now_ms: int
) -> tuple[dict[int, Known], list[str]]:
    """Return how far each partition is known to be compacted, and notes about what is unknown."""
    notes: list[str] = []
    given = (
        asked.clean_end if isinstance(asked.clean_end, Mapping) else dict.fromkeys(now.partitions, asked.clean_end or 0)
    )
    if strange := sorted(set(given) - set(now.partitions)):
        raise UsageError(f"--clean-end: {now.name} has no judged partition {strange[0]}")
    known = {partition: Known() for partition in now.partitions}
    for partition, end in given.items():
        if end > now.partitions[partition].end:
            raise UsageError(
                f"--clean-end: {now.name}-{partition} ends at {now.partitions[partition].end}, below {end}"
            )
        known[partition] = Known(end, "given by --clean-end" if end else "")
    if now.configs is None:
        notes.append(f"no permission to read the configs of {now.name} (DescribeConfigs): times were not judged")
        return known, notes
    if "compact" not in now.configs.get("cleanup.policy", "").split(","):
        raise UsageError(f"{now.name} is not compacted: cleanup.policy={now.configs.get('cleanup.policy')}")
    within_ms = _within_ms(now.configs, asked, notes)
    if within_ms is None:
        return known, notes
    segment_ms = min(
        int(now.configs.get("segment.ms", _LAG_NONE)), int(now.configs.get("max.compaction.lag.ms", _LAG_NONE))
    )
    latest = topics.latest_times_ms(now.name, sorted(now.partitions))
    # The active segment is not cleaned; a record's segment is closed once a later record has caused a roll.
    until = {partition: min(now_ms - within_ms, time - segment_ms) for partition, time in latest.items()}
    timed = topics.offsets_for_time(now.name, {partition: max(0, time) for partition, time in until.items()})
    retention_ms = int(now.configs["delete.retention.ms"])
    for partition, end in timed.items():
        end = min(end, now.partitions[partition].end)
        before = known[partition]
        because = f"all records before {until[partition]} ms are cleaned by now"
        known[partition] = Known(
            max(end, before.clean_end),
            because if end > before.clean_end else before.because,
            end,
            within_ms + retention_ms,
        )
    return known, notes


def _within_ms(configs: Mapping[str, str], asked: WireQuestion, notes: list[str]) -> int | None:
    if asked.cleaned_within_ms is not None:
        return asked.cleaned_within_ms
    lag_ms = int(configs.get("max.compaction.lag.ms", _LAG_NONE))
    if lag_ms == _LAG_NONE:
        notes.append(
            "max.compaction.lag.ms is not set, so a record or tombstone may wait for ever: times were not judged"
        )
        return None
    if configs.get("message.timestamp.type") != "LogAppendTime":
        notes.append(
            "timestamps are the producers' (message.timestamp.type), not those of the appends: times were"
            " not judged; --cleaned-within MS uses them anyway"
        )
        return None
    return lag_ms + PASS_MS


def _verify_against(spark: SparkSession, asked: WireQuestion, cluster: WireCluster, topic: str) -> WireReport:
    sides = ((asked.cluster, asked.topic), (cluster, topic))
    with closing(KafkaTopics(spark, asked.cluster)) as here, closing(KafkaTopics(spark, cluster)) as there:
        nows = [_described(of, name, asked.partition) for of, (_, name) in zip((here, there), sides, strict=True)]
        how = KeyComparison(len(nows[HERE].partitions) != len(nows[THERE].partitions), asked.every_version)
        if how.by_time and asked.every_version:
            counts = " and ".join(str(len(now.partitions)) for now in nows)
            raise UsageError(f"--every-version: expected as many partitions on both sides, found {counts}")
        salt = secrets.randbits(63)
        scans = [
            Scan(cluster=of, topic=name, ranges=now.partitions, includes_headers=asked.headers, salt=salt)
            for (of, name), now in zip(sides, nows, strict=True)
        ]
        places = " and ".join(f"{name} at {of.bootstrap}" for of, name in sides)
        with reading_errors(places):
            look = compare(spark, scans, how)
        findings, moved = list[Finding](), 0
        if look.named:
            again = [_described(of, name, asked.partition) for of, (_, name) in zip((here, there), sides, strict=True)]
            scans = [replace(scan, ranges=now.partitions) for scan, now in zip(scans, again, strict=True)]
            with reading_errors(places):
                findings, moved = _second_look(spark, scans, look, how)
    return _compared(asked, nows, look, findings, moved, f"{topic} at {cluster.bootstrap}")


def _second_look(
    spark: SparkSession, scans: list[Scan], look: FirstLook, how: KeyComparison
) -> tuple[list[Finding], int]:
    """Return what still differs, and the number of keys that were read again and are equal or have changed."""
    found = [versions_of(spark, scan, look.named, how) for scan in scans]
    places = tuple(SideName(scan.topic, scan.cluster.bootstrap) for scan in scans)
    findings, moved = list[Finding](), 0
    for each in look.named:
        key_here, here = found[HERE].get((each.high, each.low), (None, []))
        key_there, there = found[THERE].get((each.high, each.low), (None, []))
        key = key_there if key_here is None else key_here
        finding = None
        if not has_moved(each, here, there):
            finding = difference(key, here, there, (places[HERE], places[THERE]), every_version=how.every_version)
        if finding is None:
            moved += 1
        else:
            findings.append(finding)
    if moved and moved == len(look.named) < look.differing:
        raise SourceChangedError(
            f"{look.differing} keys differ, and the {moved} of them that have not changed for longest changed during the check: call"
            " again at a time with fewer writes"
        )
    return findings, moved


def _compared(
    asked: WireQuestion, nows: list[WireTopic], look: FirstLook, findings: list[Finding], moved: int, other: str
) -> WireReport:
    partitions: dict[int, WirePartition] = {}
    nothing = Side(0, 0)
    for partition in sorted({*nows[HERE].partitions, *nows[THERE].partitions}):
        bounds = nows[HERE].partitions.get(partition)
        here, there = look.sides.get((HERE, partition), nothing), look.sides.get((THERE, partition), nothing)
        start, end = (0, 0) if bounds is None else bounds
        partitions[partition] = WirePartition(
            topic=asked.topic,
            partition=partition,
            records=here.records,
            keys=here.keys,
            records_there=there.records,
            keys_there=there.keys,
            start_offset=start,
            end_offset=end,
        )
    for finding in findings:
        own = int(finding.file.partition(" at ")[0].rpartition("-")[2])
        partitions[own].findings.append(finding)
        partitions[own].finding_count += 1
    if more := look.differing - moved - len(findings):
        partitions[min(partitions)].finding_count += more
    notes = (
        [f"{moved} keys differed at first, and were equal or had changed when they were read again"] if moved else []
    )
    if more:
        notes.append(f"{more} more keys differ, which are not listed; they are counted with the first partition")
    return WireReport(mode=f"over the wire, against {other}", partitions=[*partitions.values()], notes=notes)
