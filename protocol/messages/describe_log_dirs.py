"""DescribeLogDirs (key 35, versions 1–5): sizes of partitions by data directory (KIP-113).

2 adds flexible encoding, 3 an error for the whole response, 4 size and free space of the volume (KIP-827), 5 whether
the directory is cordoned off from new partitions (KIP-1066). Ottla's own: the cleaner's status of each partition, on
request.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, Int64, String, since, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None = ()
    ottla_cleaner_status: Annotated[Bool, since(2), tag(10_000)] = False
    """Whether the response should have the cleaner's status of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsPartition:
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False
    ottla_cleaner_status: Annotated[String | None, since(2), tag(10_000)] = None
    """JSON, an object; see `ottla.server.services.explaining`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsTopic:
    name: String = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Bool, since(5)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()
