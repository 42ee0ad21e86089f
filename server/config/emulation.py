"""Emulation of older brokers: which APIs and versions the ApiVersions response of each Apache Kafka release lists.

A client chooses its requests by that response, so a library's paths for old brokers can be tested without one. Ranges
are those of the release's message definitions (`validVersions` without an unstable latest one, APIs that a broker
listens for: ZooKeeper's brokers up to 3.2, KRaft's from 3.3 on), written as changes from release to release. Only the
part of a range that Ottla also supports is advertised: KIP-896 removed the oldest versions in Apache Kafka 4.0, and
Ottla never had them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ...protocol.apis import APIS
from ...storage.topics.config import ConfigError

Range = tuple[int, int]

_FIRST: dict[str, Range] = {
    "Produce": (0, 9),
    "Fetch": (0, 12),
    "ListOffsets": (0, 6),
    "Metadata": (0, 11),
    "OffsetCommit": (0, 8),
    "OffsetFetch": (0, 7),
    "FindCoordinator": (0, 3),
    "JoinGroup": (0, 7),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 4),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 5),
    "ListGroups": (0, 4),
    "SaslHandshake": (0, 1),
    "ApiVersions": (0, 3),
    "CreateTopics": (0, 7),
    "DeleteTopics": (0, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 4),
    "OffsetForLeaderEpoch": (0, 4),
    "AddPartitionsToTxn": (0, 3),
    "AddOffsetsToTxn": (0, 3),
    "EndTxn": (0, 3),
    "WriteTxnMarkers": (0, 1),
    "TxnOffsetCommit": (0, 3),
    "DescribeAcls": (0, 2),
    "CreateAcls": (0, 2),
    "DeleteAcls": (0, 2),
    "DescribeConfigs": (0, 4),
    "AlterConfigs": (0, 2),
    "AlterReplicaLogDirs": (0, 2),
    "DescribeLogDirs": (0, 2),
    "SaslAuthenticate": (0, 2),
    "CreatePartitions": (0, 3),
    "CreateDelegationToken": (0, 2),
    "RenewDelegationToken": (0, 2),
    "ExpireDelegationToken": (0, 2),
    "DescribeDelegationToken": (0, 2),
    "DeleteGroups": (0, 2),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 0),
    "ListPartitionReassignments": (0, 0),
    "OffsetDelete": (0, 0),
    "DescribeClientQuotas": (0, 1),
    "AlterClientQuotas": (0, 1),
    "DescribeUserScramCredentials": (0, 0),
    "AlterUserScramCredentials": (0, 0),
    "DescribeCluster": (0, 0),
    "DescribeProducers": (0, 0),
    "UpdateFeatures": (0, 0),
}
"""API versions of release 2.8."""

_CHANGES: dict[str, dict[str, Range]] = {
    "2.8": {},
    "3.0": {
        "ListOffsets": (0, 7),
        "OffsetFetch": (0, 8),
        "FindCoordinator": (0, 4),
        "DescribeTransactions": (0, 0),
        "ListTransactions": (0, 0),
    },
    "3.1": {"Fetch": (0, 13), "Metadata": (0, 12)},
    "3.2": {"JoinGroup": (0, 9), "LeaveGroup": (0, 5), "DescribeLogDirs": (0, 3)},
    "3.3": {
        "DescribeLogDirs": (0, 4),
        "DescribeQuorum": (0, 1),
        "UnregisterBroker": (0, 0),
        "UpdateFeatures": (0, 1),
        "DescribeAcls": (0, 3),
        "CreateAcls": (0, 3),
        "DeleteAcls": (0, 3),
        "CreateDelegationToken": (0, 3),
        "DescribeDelegationToken": (0, 3),
    },
    "3.4": {},
    "3.5": {"Fetch": (0, 15), "ListOffsets": (0, 8)},
    "3.6": {"AddPartitionsToTxn": (0, 4)},
    "3.7": {
        "Produce": (0, 10),
        "Fetch": (0, 16),
        "OffsetCommit": (0, 9),
        "OffsetFetch": (0, 9),
        "DescribeCluster": (0, 1),
        "ConsumerGroupHeartbeat": (0, 0),
        "GetTelemetrySubscriptions": (0, 0),
        "ListConfigResources": (0, 0),
        "PushTelemetry": (0, 0),
    },
    "3.8": {
        "Produce": (0, 11),
        "FindCoordinator": (0, 5),
        "ListGroups": (0, 5),
        "InitProducerId": (0, 5),
        "AddPartitionsToTxn": (0, 5),
        "AddOffsetsToTxn": (0, 4),
        "EndTxn": (0, 4),
        "TxnOffsetCommit": (0, 4),
        "ListTransactions": (0, 1),
        "ConsumerGroupDescribe": (0, 0),
        "DescribeTopicPartitions": (0, 0),
    },
    "3.9": {
        "Fetch": (0, 17),
        "ListOffsets": (0, 9),
        "FindCoordinator": (0, 6),
        "ApiVersions": (0, 4),
        "DescribeQuorum": (0, 2),
        "AddRaftVoter": (0, 0),
        "RemoveRaftVoter": (0, 0),
    },
    "4.0": {
        # KIP-896; Produce is named from 0 on all the same, or librdkafka before 2.11.1 stops compressing (KAFKA-18659).
        "Produce": (0, 12),
        "Fetch": (4, 17),
        "ListOffsets": (1, 10),
        "Metadata": (0, 13),
        "OffsetCommit": (2, 9),
        "OffsetFetch": (1, 9),
        "JoinGroup": (2, 9),
        "DescribeGroups": (0, 6),
        "CreateTopics": (2, 7),
        "DeleteTopics": (1, 6),
        "OffsetForLeaderEpoch": (2, 4),
        "EndTxn": (0, 5),
        "WriteTxnMarkers": (1, 1),
        "TxnOffsetCommit": (0, 5),
        "DescribeAcls": (1, 3),
        "CreateAcls": (1, 3),
        "DeleteAcls": (1, 3),
        "CreateDelegationToken": (1, 3),
        "RenewDelegationToken": (1, 2),
        "ExpireDelegationToken": (1, 2),
        "DescribeDelegationToken": (1, 3),
        "DescribeConfigs": (1, 4),
        "AlterReplicaLogDirs": (1, 2),
        "DescribeLogDirs": (1, 4),
        "DescribeCluster": (0, 2),
        "ConsumerGroupHeartbeat": (0, 1),
        "ConsumerGroupDescribe": (0, 1),
        "UpdateFeatures": (0, 2),
    },
    "4.1": {
        "Produce": (0, 13),
        "Fetch": (4, 18),
        # Came back for librdkafka of Debian 12 and others (KAFKA-19444).
        "JoinGroup": (0, 9),
        "AlterPartitionReassignments": (0, 1),
        "ListTransactions": (0, 2),
        "ListConfigResources": (0, 1),
        "ShareGroupHeartbeat": (1, 1),
        "ShareGroupDescribe": (1, 1),
        "ShareFetch": (1, 1),
        "ShareAcknowledge": (1, 1),
        "InitializeShareGroupState": (0, 0),
        "ReadShareGroupState": (0, 0),
        "WriteShareGroupState": (0, 0),
        "DeleteShareGroupState": (0, 0),
        "ReadShareGroupStateSummary": (0, 0),
        "DescribeShareGroupOffsets": (0, 0),
        "AlterShareGroupOffsets": (0, 0),
        "DeleteShareGroupOffsets": (0, 0),
    },
    "4.2": {
        "ListOffsets": (1, 11),
        "OffsetCommit": (2, 10),
        "OffsetFetch": (1, 10),
        "WriteTxnMarkers": (1, 2),
        "AddRaftVoter": (0, 1),
        "ShareFetch": (1, 2),
        "ShareAcknowledge": (1, 2),
        "WriteShareGroupState": (0, 1),
        "ReadShareGroupStateSummary": (0, 1),
        "DescribeShareGroupOffsets": (0, 1),
        "StreamsGroupHeartbeat": (0, 0),
        "StreamsGroupDescribe": (0, 0),
    },
    "4.3": {"DescribeLogDirs": (1, 5)},
    "4.4": {
        "ApiVersions": (0, 5),
        "TxnOffsetCommit": (0, 6),
        "DeleteGroups": (0, 3),
        "StreamsGroupHeartbeat": (0, 1),
        "StreamsGroupDescribe": (0, 1),
        "StreamsGroupTopologyDescriptionUpdate": (0, 0),
        "UnregisterController": (0, 0),
    },
}
"""API versions by release: each API that is new in it, or whose versions differ from the release before."""

_FEATURES: dict[str, dict[str, Range]] = {
    "3.3": {"metadata.version": (1, 7)},
    "3.4": {"metadata.version": (1, 8)},
    "3.5": {"metadata.version": (1, 11)},
    "3.6": {"metadata.version": (1, 14)},
    "3.7": {"metadata.version": (1, 19)},
    "3.8": {"metadata.version": (1, 20)},
    "3.9": {"kraft.version": (0, 1), "metadata.version": (1, 21)},
    "4.0": {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "metadata.version": (7, 25),
        "transaction.version": (0, 2),
    },
    "4.1": {"metadata.version": (7, 27), "share.version": (0, 1)},
    "4.2": {"metadata.version": (7, 29), "streams.version": (0, 1)},
    "4.3": {"metadata.version": (7, 30)},
    "4.4": {"metadata.version": (7, 33), "share.version": (0, 2)},
}
"""Feature levels by release: each feature that is new in it, or whose levels differ from the release before. Unstable
levels are left out. Brokers with ZooKeeper had no features.
"""

RELEASES = tuple(_CHANGES)
"""Releases that can be emulated, the oldest first."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One emulated release: everything by which clients can distinguish it from others."""

    name: str
    """MAJOR.MINOR."""
    of_kafka: Mapping[int, Range]
    """Versions in the release's own ApiVersions of the APIs that Ottla knows: API key -> lowest and highest version,
    both inclusive.
    """
    features: Mapping[str, Range]
    """The levels of each feature that the release has."""
    keeps_range_end: bool
    """Whether its cleaner keeps the last batch of each cleaned range without its records (up to 4.3; KAFKA-20452)."""

    def advertised(self, key: int) -> Range | None:
        """Return the advertised versions of an API: those that both the release and Ottla have.

        None if ApiVersions does not list the API.
        """
        return self._shared(key, APIS[key].advertised)

    def speaks(self, key: int, version: int) -> bool:
        """Return whether a request of this API and version is answered."""
        served = self._shared(key, APIS[key].versions)
        return served is not None and served[0] <= version <= served[1]

    def _shared(self, key: int, ours: Range) -> Range | None:
        theirs = self.of_kafka.get(key)
        if theirs is None:
            return None
        low, high = max(theirs[0], ours[0]), min(theirs[1], ours[1])
        return (low, high) if low <= high else None


def release_of(text: str) -> Release:
    """Return the release of a version like `2.8`. A patch version (`2.8.1`) is ignored, since patches do not change APIs.

    Raises:
        ConfigError: Unknown release; names the known ones.
    """
    found = re.fullmatch(r"v?(\d{1,3}\.\d{1,3})(?:\.\d{1,3})*", str(text))
    if found is None or found[1] not in _CHANGES:
        raise ConfigError(f"Invalid value {text} for emulate: must be one of: {', '.join(RELEASES)}")
    return _release(found[1])


@cache
def _release(name: str) -> Release:
    ranges = dict(_FIRST)
    features: dict[str, Range] = {}
    for each in RELEASES[: RELEASES.index(name) + 1]:
        ranges.update(_CHANGES[each])
        features.update(_FEATURES.get(each, {}))
    keys = {api.name: api.key for api in APIS.values()}
    return Release(
        name,
        {keys[api]: versions for api, versions in ranges.items()},
        features,
        keeps_range_end=RELEASES.index(name) <= RELEASES.index("4.3"),
    )
