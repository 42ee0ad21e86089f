"""The topic `_schemas`: what it says, and new records.

The state is brought up to date when a request needs it, and then contains every record below the high watermark: its own
writes, and those of any Kafka client. A restart, a reset or a new topic gives another log, so the state begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import trio

from ...protocol.batch_builder import build_batch
from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import batches
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.files import FileSlice
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..partitions.large_appends import append_later
from ..partitions.reading import read_part
from ..partitions.topics import NO_LEADER, Partition
from ..runtime.threads import Work, Worker, in_thread, in_worker
from ..runtime.time_slices import TimeSlice
from .errors import RegistryError, store_failed, too_large
from .records import SCHEMAS_TOPIC, Entry, Pair, UnreadableRecordError, parse_record
from .state import State

log = logging.getLogger("ottla.registry")

REPLICAS_MAX = 3
"""Maximum number of replicas of a new topic, as in Confluent's registry; at most the number of nodes."""
READ_BYTES = 1 << 20
UNPACKED_BYTES_MAX = 64 << 20
"""Maximum unpacked bytes of one batch that a client wrote."""


class SchemasTopic:
    """`_schemas` of a broker's run, and the state that its records make."""

    def __init__(self, broker: Broker) -> None:
        self._services = broker.services
        self._state = State()
        self._log: Log | None = None
        self._next_offset = 0
        self._refusal = ""
        """Why the records make no state; "" if they do."""
        self._refused_bytes = 0
        """Size of the log at that time. It is read again once compaction has made it smaller, or it is another log."""
        self._catching_up = trio.Lock()

    @property
    def position(self) -> tuple[Log | None, int] | None:
        """Where the state ends; equal positions mean equal states. None if it is not current, or if there is none."""
        try:
            is_current = self._is_current() and not self._refusal
        except RegistryError:
            return None
        return (self._log, self._next_offset) if is_current else None

    async def current(self) -> State:
        """Return the state, with every record below the high watermark.

        Raises:
            RegistryError: 50001: the topic cannot be read, or other clients have exceeded the limits of the registry.
        """
        if not self._is_current():
            async with self._catching_up:
                await self._catch_up()
        if self._refusal:
            raise store_failed(self._refusal)
        return self._state

    async def settled(self) -> State:
        """Return the state with every record of the log, for a write that is decided on it: a record whose sync failed, or whose
        writer was cancelled, is not below the high watermark yet, but its ids are taken.

        Raises:
            RegistryError: 50001: the topic cannot be synced or read.
        """
        found = self._partition()
        if found is not None and found.log.needs_flush:
            try:
                await self._services.appends.flusher.flush([found.log])
            except KafkaError as error:
                raise store_failed(f"{SCHEMAS_TOPIC}: {error.message or error.code.name}") from error
        return await self.current()

    async def append(self, make: Callable[[], Sequence[Pair]]) -> None:
        """Write records as one batch, with `acks=all`, and create the topic if it does not exist. The state then contains them.

        Args:
            make: Function that returns the records, for a worker thread.

        Raises:
            RegistryError: 42209: they are too large for the topic; 50001: they cannot be written.
        """
        try:
            found = self._partition() or await self._create()
            if found.log.config.is_delete or not found.log.config.is_compact:
                raise store_failed(f"{SCHEMAS_TOPIC}: cleanup.policy must be compact, or schemas would be lost")
            if found.present_leader == NO_LEADER:
                raise store_failed(f"{SCHEMAS_TOPIC}-0 has no leader")
            now_ms = self._services.clock.now_ms()
            batch = await in_worker(
                lambda make: build_batch([(at, now_ms, *pair, ()) for at, pair in enumerate(make())]),
                make,
                Worker.REGISTRY,
            )
            appends = self._services.appends
            appends.check_insync(found)
            done = await append_later(appends, found, memoryview(batch), None)
            await appends.complete(found.log, done)
        except KafkaError as error:
            sentence = error.message or error.code.name
            if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                raise too_large(f"the schema is too large for {SCHEMAS_TOPIC}: {sentence}") from error
            raise store_failed(f"{SCHEMAS_TOPIC}: {sentence}") from error
        await self.current()

    def _partition(self) -> Partition | None:
        """Return the topic's only partition; None if the topic does not exist. RegistryError 50001: it has several."""
        topic = self._services.topics.get(SCHEMAS_TOPIC)
        if topic is None:
            return None
        if len(topic.partitions) != 1:
            raise store_failed(f"{SCHEMAS_TOPIC} has {len(topic.partitions)} partitions; it must have one")
        return topic.partitions[0]

    async def _create(self) -> Partition:
        """Create the topic. KafkaError: it cannot be created."""
        admin, nodes = self._services.topic_admin, self._services.cluster.live_node_ids()
        try:
            await admin.create(
                admin.planner.plan(
                    SCHEMAS_TOPIC,
                    num_partitions=1,
                    replication_factor=min(REPLICAS_MAX, len(nodes)),
                    configs={"cleanup.policy": "compact"},
                )
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        found = self._partition()
        if found is None:
            raise store_failed(f"{SCHEMAS_TOPIC} was deleted while it was being created")
        return found

    def _is_current(self) -> bool:
        partition = self._partition()
        if partition is None:
            return self._log is None
        if partition.log is not self._log:
            return False
        if self._refusal:
            return self._log.size_bytes >= self._refused_bytes
        return self._next_offset >= self._log.high_watermark

    async def _catch_up(self) -> None:
        """Read what is below the present high watermark. What clients write during it is left for the next call."""
        time_slice = TimeSlice()
        end = -1
        while not self._is_current():
            partition = self._partition()
            log_now = None if partition is None else partition.log
            if log_now is not self._log or self._refusal:
                self._log, self._state, self._next_offset, self._refusal, end = log_now, State(), 0, "", -1
            if log_now is None:
                return
            end = log_now.high_watermark if end < 0 else end
            if self._next_offset >= end:
                return
            try:
                part = await read_part(log_now, self._next_offset, end, READ_BYTES)
                if not len(part):
                    self._next_offset = end
                    continue
                entries, next_offset = await in_thread(
                    Work.READ, data_dir_of(log_now), _entries, part, self._next_offset
                )
            except (KafkaError, OSError, CorruptRecordError) as error:
                raise store_failed(f"{SCHEMAS_TOPIC} cannot be read: {error}") from error
            try:
                async for _ in time_slice.each(_applied(self._state, entries)):
                    pass
            except RegistryError as error:
                self._refusal, self._refused_bytes = str(error), log_now.size_bytes
                log.error("%s", error)
                return
            except BaseException:  # half a batch may be applied
                self._log, self._state = None, State()
                raise
            self._next_offset = next_offset


def _applied(state: State, entries: list[Entry]) -> Iterator[None]:
    """Apply the records in short pieces, and empty the list: a hundred thousand would otherwise be freed at once."""
    entries.reverse()
    while entries:
        yield from state.apply(entries.pop())


def _entries(part: FileSlice, at: int) -> tuple[list[Entry], int]:
    """Return the records of whole batches from offset `at` on, and where to continue. For a worker thread."""
    found: list[Entry] = []
    ignored: list[str] = []
    unpacked_bytes = 0
    for batch in batches(part.read()):
        if unpacked_bytes > UNPACKED_BYTES_MAX:  # a megabyte may have been gigabytes
            break
        if not batch.is_control:
            try:
                records = list(batch.records(max_bytes=UNPACKED_BYTES_MAX))
            except KafkaError as error:
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                # No registry writes such a batch.
                ignored.append(f"offset {batch.base_offset}: {error.message or error.code.name}")
                records = []
            for record in records:
                if record.offset < at:
                    continue
                unpacked_bytes += len(record.key or b"") + len(record.value or b"")
                try:
                    entry = parse_record(record.key, record.value)
                except (UnreadableRecordError, RegistryError) as error:
                    ignored.append(f"offset {record.offset}: {error}")
                else:
                    if entry is not None:
                        found.append(entry)
        at = max(at, batch.next_offset)
    if ignored:
        log.warning("%s: records that are ignored: %d, the first at %s", SCHEMAS_TOPIC, len(ignored), ignored[0])
    return found, at
