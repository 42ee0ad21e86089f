"""Table of the protocol's APIs, one row each, sorted by key.

To add an API, add a file in `messages/` and a row here. The file is named after the API in snake case and contains the
classes `<Name>Request` and `<Name>Response`. It is loaded on first use, because making the message classes of all APIs would
slow down the start of the broker.

Version ranges are those of Apache Kafka 4.4.0.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Api:
    """One API: its messages, the supported versions and their encoding.

    `versions` are lowest and highest, both inclusive; `flexible_since` is the first version in KIP-482's flexible
    encoding, or None; `advertised` is the range in ApiVersions, if it differs from `versions`.
    `unstable` is the version after `versions` that Apache Kafka serves only with `unstable.api.versions.enable`. It can be
    parsed here, and a broker without that option refuses it.
    """

    key: int
    name: str
    versions: tuple[int, int]
    flexible_since: int | None
    advertised_from: int | None = None
    unstable: int | None = None

    @cached_property
    def _messages(self) -> ModuleType:
        return import_module(f".messages.{snake_case(self.name)}", __package__)

    @cached_property
    def request(self) -> type[Any]:
        """The request's message class."""
        return self._messages.__dict__[f"{self.name}Request"]  # type: ignore[no-any-return]

    @cached_property
    def response(self) -> type[Any]:
        """The response's message class."""
        return self._messages.__dict__[f"{self.name}Response"]  # type: ignore[no-any-return]

    @property
    def advertised(self) -> tuple[int, int]:
        """The range for ApiVersions, both ends inclusive."""
        low, high = self.versions
        return (low if self.advertised_from is None else self.advertised_from, high)

    def speaks(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1] or version == self.unstable

    def is_flexible(self, version: int) -> bool:
        """Whether the body, and the request header with it, is in flexible encoding."""
        return self.flexible_since is not None and version >= self.flexible_since

    def has_flexible_response_header(self, version: int) -> bool:
        """Whether the response header is flexible. That of ApiVersions never is: the client has no versions yet (KIP-511)."""
        return self.is_flexible(version) and self.key != API_VERSIONS_KEY


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


API_VERSIONS_KEY = 18

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # If a broker does not list Produce 0-2, librdkafka assumes that it has no Produce (KAFKA-18659).
        Api(0, "Produce", (3, 13), 9, advertised_from=0),
        Api(1, "Fetch", (4, 18), 12),
        Api(2, "ListOffsets", (1, 11), 6),
        Api(3, "Metadata", (0, 13), 9),
        Api(8, "OffsetCommit", (2, 10), 8),
        Api(9, "OffsetFetch", (1, 10), 6),
        Api(10, "FindCoordinator", (0, 6), 3),
        Api(11, "JoinGroup", (0, 9), 6),
        Api(12, "Heartbeat", (0, 4), 4),
        Api(13, "LeaveGroup", (0, 5), 4),
        Api(14, "SyncGroup", (0, 5), 4),
        Api(15, "DescribeGroups", (0, 6), 5),
        Api(16, "ListGroups", (0, 5), 3),
        Api(17, "SaslHandshake", (0, 1), None),
        Api(API_VERSIONS_KEY, "ApiVersions", (0, 5), 3),
        Api(19, "CreateTopics", (2, 7), 5),
        Api(20, "DeleteTopics", (1, 6), 4),
        Api(21, "DeleteRecords", (0, 2), 2),
        Api(22, "InitProducerId", (0, 5), 2, unstable=6),
        Api(23, "OffsetForLeaderEpoch", (2, 4), 4),
        Api(24, "AddPartitionsToTxn", (0, 5), 3),
        Api(25, "AddOffsetsToTxn", (0, 4), 3),
        Api(26, "EndTxn", (0, 5), 3),
        Api(27, "WriteTxnMarkers", (1, 2), 1),
        Api(28, "TxnOffsetCommit", (0, 6), 3),
        Api(29, "DescribeAcls", (1, 3), 2),
        Api(30, "CreateAcls", (1, 3), 2),
        Api(31, "DeleteAcls", (1, 3), 2),
        Api(32, "DescribeConfigs", (1, 4), 4),
        Api(33, "AlterConfigs", (0, 2), 2),
        Api(34, "AlterReplicaLogDirs", (1, 2), 2),
        Api(35, "DescribeLogDirs", (1, 5), 2),
        Api(36, "SaslAuthenticate", (0, 2), 2),
        Api(37, "CreatePartitions", (0, 3), 2),
        Api(38, "CreateDelegationToken", (1, 3), 2),
        Api(39, "RenewDelegationToken", (1, 2), 2),
        Api(40, "ExpireDelegationToken", (1, 2), 2),
        Api(41, "DescribeDelegationToken", (1, 3), 2),
        Api(42, "DeleteGroups", (0, 3), 2),
        Api(43, "ElectLeaders", (0, 2), 2),
        Api(44, "IncrementalAlterConfigs", (0, 1), 1),
        Api(45, "AlterPartitionReassignments", (0, 1), 0),
        Api(46, "ListPartitionReassignments", (0, 0), 0),
        Api(47, "OffsetDelete", (0, 0), None),
        Api(48, "DescribeClientQuotas", (0, 1), 1),
        Api(49, "AlterClientQuotas", (0, 1), 1),
        Api(50, "DescribeUserScramCredentials", (0, 0), 0),
        Api(51, "AlterUserScramCredentials", (0, 0), 0),
        Api(55, "DescribeQuorum", (0, 2), 0),
        Api(57, "UpdateFeatures", (0, 2), 0),
        Api(60, "DescribeCluster", (0, 2), 0),
        Api(61, "DescribeProducers", (0, 0), 0),
        Api(64, "UnregisterBroker", (0, 0), 0),
        Api(65, "DescribeTransactions", (0, 0), 0),
        Api(66, "ListTransactions", (0, 2), 0),
        Api(68, "ConsumerGroupHeartbeat", (0, 1), 0),
        Api(69, "ConsumerGroupDescribe", (0, 1), 0),
        Api(71, "GetTelemetrySubscriptions", (0, 0), 0),
        Api(72, "PushTelemetry", (0, 0), 0),
        Api(74, "ListConfigResources", (0, 1), 0),
        Api(75, "DescribeTopicPartitions", (0, 0), 0),
        Api(76, "ShareGroupHeartbeat", (1, 1), 0),
        Api(77, "ShareGroupDescribe", (1, 1), 0),
        Api(78, "ShareFetch", (1, 2), 0),
        Api(79, "ShareAcknowledge", (1, 2), 0),
        Api(80, "AddRaftVoter", (0, 1), 0),
        Api(81, "RemoveRaftVoter", (0, 0), 0),
        Api(83, "InitializeShareGroupState", (0, 0), 0),
        Api(84, "ReadShareGroupState", (0, 0), 0),
        Api(85, "WriteShareGroupState", (0, 1), 0),
        Api(86, "DeleteShareGroupState", (0, 0), 0),
        Api(87, "ReadShareGroupStateSummary", (0, 1), 0),
        Api(88, "StreamsGroupHeartbeat", (0, 1), 0),
        Api(89, "StreamsGroupDescribe", (0, 1), 0),
        Api(90, "DescribeShareGroupOffsets", (0, 1), 0),
        Api(91, "AlterShareGroupOffsets", (0, 0), 0),
        Api(92, "DeleteShareGroupOffsets", (0, 0), 0),
        Api(93, "StreamsGroupTopologyDescriptionUpdate", (0, 0), 0),
        Api(94, "UnregisterController", (0, 0), 0),
    )
}
