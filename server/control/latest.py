"""The newest record of each key of a partition, as read_committed consumers see it: the table of a topic, over HTTP.

The log is read from its start for each call, since no index finds a key. Only keys and offsets are in memory.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Annotated

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.filter.transaction_state import PassTransactions
from ...storage.logs.log import Log
from ...storage.steps import Steps
from ..broker.broker import Broker
from ..client.key_offsets import KeyOffsets
from ..client.newest import note
from ..client.values import partition_of
from ..runtime.errors import ControlError, Kind, check_number
from ..runtime.threads import search
from .operation import Encoding, Length, Name, PartitionId, Range, decoded, operation
from .partitions import logs_of
from .records import COUNT, COUNT_MAX, READ_BYTES_MAX, RecordList, RecordState, read_records

KEYS_MAX = 1_000_000
"""Maximum number of live keys that one call keeps in memory: 45 MB for short ones. With versions deleted keys count as well."""
KEY_BYTES_MAX = 64 << 20
"""Maximum size of these keys together; until deleted keys are dropped, twice as much is in memory."""
_Key = Annotated[str, Length(0, 1 << 20)]


@operation("GET", "/v1/topics/{topic}/latest", statuses=(404, 500), only_waits=True)
async def latest_records(
    broker: Broker,
    topic: Name,
    partition: PartitionId | None = None,
    *,
    key: _Key | None = None,
    key_prefix: _Key | None = None,
    encoding: Encoding = Encoding.TEXT,
    offset: Annotated[int, Range(0)] = 0,
    count: Annotated[int, Range(1, COUNT_MAX)] = COUNT,
) -> RecordList:
    """Show the newest committed record of each key of a partition, without deleted keys, in the order of offsets.

    The rules are those of `ottla consume --latest`. Each call reads the whole partition.

    Args:
        partition: Default: the one that the clients' default partitioner chooses for `key`, else 0.
        key: Show only this key.
        key_prefix: Show only keys that begin with this.
        encoding: Encoding of `key` and `key_prefix`.
        offset: Leave out records below this offset; `next_offset` of the last response continues.
        count: Maximum number of records; fewer if they exceed 1 MiB.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; INVALID: an argument is invalid, or there are too many keys; FAILED:
            the log cannot be read.
    """
    check_number("count", count, 1, COUNT_MAX)
    wanted = None if key is None else decoded("key", key, encoding)
    prefix = b"" if key_prefix is None else decoded("key_prefix", key_prefix, encoding)
    if partition is None:
        partition = 0 if wanted is None else partition_of(wanted, len(logs_of(broker, topic)))
    (log,) = logs_of(broker, topic, [partition])
    start, end = log.log_start_offset, log.last_stable_offset
    try:
        # One more than is shown, to know where to continue.
        offsets = await search(data_dir_of(log), _offsets(log, wanted, prefix, offset, count + 1))
    except KafkaError as error:
        raise ControlError(Kind.FAILED, error.message) from error
    except OSError as error:
        raise ControlError(Kind.FAILED, f"{log.topic_partition}: {error}") from error
    found: list[RecordState] = []
    size_bytes, next_offset = 0, end
    for each in offsets:
        if len(found) == count or size_bytes >= READ_BYTES_MAX:
            next_offset = each
            break
        (record, *_) = (await read_records(broker, topic, partition, offset=each, count=1)).records or (None,)
        if record is not None and record.offset == each:  # a pass may have removed it since
            found.append(record)
            size_bytes += record.value_bytes
    return RecordList(topic, partition, tuple(found), next_offset, start, end)


def _offsets(log: Log, wanted: bytes | None, prefix: bytes, offset: int, count: int) -> Steps[list[int]]:
    """Return the first `count` offsets of newest records, from `offset` on; in steps."""
    newest = yield from _newest(log, wanted, prefix)
    return nsmallest(count, (each for _, each in newest.items() if each >= offset))


def _newest(log: Log, wanted: bytes | None, prefix: bytes) -> Steps[KeyOffsets]:
    """Read the log up to the last stable offset, in steps; return the offsets of the newest records."""
    start, end, segments = log.log_start_offset, log.last_stable_offset, list(log.segments)
    newest, transactions = KeyOffsets(log.config.version_source), PassTransactions()
    kind = "live keys" if newest.source is None else "keys"
    transactions.add_aborted(log.aborted_transactions(start, end))
    for segment in segments:
        for _, batch in segment.batches():
            if batch.base_offset >= end:
                return newest
            if batch.is_control:
                transactions.on_control(batch)
            elif not transactions.on_data(batch) and batch.last_offset >= start:
                for record in batch.records():
                    key = record.key
                    if key is not None and key.startswith(prefix) and wanted in (None, key) and record.offset >= start:
                        note(newest, record, record.timestamp)
                if newest.needed > KEYS_MAX:
                    raise ControlError(
                        Kind.INVALID,
                        f"{log.topic_partition}: too many {kind} (limit {KEYS_MAX}); use key_prefix, or"
                        " `ottla consume --latest`",
                    )
                if newest.key_bytes > 2 * KEY_BYTES_MAX:
                    newest.drop_deleted()
                    if newest.key_bytes > KEY_BYTES_MAX:
                        raise ControlError(
                            Kind.INVALID,
                            f"{log.topic_partition}: {kind} too large (limit {KEY_BYTES_MAX} bytes together); use"
                            " key_prefix, or `ottla consume --latest`",
                        )
            yield
    return newest
