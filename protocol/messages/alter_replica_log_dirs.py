"""AlterReplicaLogDirs (key 34, versions 1-2): replicas of a broker move to other data directories of it (KIP-113).

2 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopic:
    name: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDir:
    path: String = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    topic_name: String = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
