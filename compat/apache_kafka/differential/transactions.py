"""Transactional histories, played by raw requests as they are made, and the files that Apache Kafka wrote.

Producer ids, epochs and markers come from the broker, so making and recording are one step here. Files are recorded:
before each pass, the batches since the last pass and the segment boundaries; after it, every whole segment with its
transaction index. `replay_storage` needs nothing else. `replay_transactions` plays a history again: the seed makes the
same requests, and the recording gives their times.

    style   finalized transaction.version   clients
    old     0                               AddPartitionsToTxn, Produce 8, EndTxn 2: markers in the data's epoch
    old-1   1                               the same
    new     2                               Produce 12, EndTxn 5: each marker, and all after it, in the next epoch
    mixed   2                               some of each
"""

import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from ...support.logs.segment_files import HEADER, base_offset, segments
from .batches import CODECS, encode
from .history import DAY_MS, HELD_BACK, HOUR_MS, LET_GO, History
from .live import LiveKafka, UnluckyError, exact_times, now_ms
from .script import ROLL_MS, Script
from .wire import CONCURRENT_TRANSACTIONS, COORDINATOR_STARTS, NONE, Wire

TXN_ENTRY = struct.Struct(">hqqqq")
TRANSACTION_VERSIONS = {"old": 0, "old-1": 1, "new": 2, "mixed": 2}
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Theme:
    """Chances, each of one action of a producer (or, `stays_open`, of one round)."""

    commits: float = 0.3
    aborts: float = 0.2
    tombstones: float = 0.15
    empties: float = 0.0
    """A marker without data: the partition is added to the transaction, and nothing written. Old style only."""
    reinits: float = 0.0
    """InitProducerId again, which aborts what is open and fences."""
    stays_open: float = 0.0
    plain: float = 0.2
    rolls: float = 0.2
    codecs: tuple[str, ...] = ("none",)
    producers: int = 3
    rounds: int = 4
    acts: tuple[int, int] = (5, 14)
    """The number of actions in a round: from the first, below the second."""
    restarts: bool = False
    """The broker is stopped and started every other round, which begins a leader epoch."""
    retention_ms: tuple[int, ...] = (0,)
    segment_bytes: int | None = None
    map_entries: int | None = None


THEMES = {
    "committed": Theme(aborts=0.0, commits=0.5),
    "aborted": Theme(aborts=0.5, commits=0.0),
    "both": Theme(rounds=5),
    "horizons": Theme(tombstones=0.4, retention_ms=(0, HOUR_MS), rounds=6),
    "markers stay": Theme(retention_ms=(DAY_MS,), rounds=5),
    "open": Theme(stays_open=0.7, rounds=6),
    "empties": Theme(empties=0.25, rounds=5),
    "reinits": Theme(reinits=0.2, rounds=5, stays_open=0.2),
    "packed": Theme(codecs=CODECS, tombstones=0.3, rounds=4),
    "small segments": Theme(segment_bytes=500, rolls=0.0, rounds=5),
    "one producer": Theme(producers=1, plain=0.0, rounds=7),
    "many producers": Theme(producers=6, rounds=4, rolls=0.4),
    "full map": Theme(map_entries=6, rounds=3, retention_ms=(HOUR_MS,)),
    "idle producers": Theme(producers=6, commits=0.6, rounds=8, acts=(2, 5)),
    "restarts": Theme(restarts=True, stays_open=0.4, rounds=5, tombstones=0.3, retention_ms=(0, HOUR_MS)),
    "all": Theme(
        empties=0.05, reinits=0.05, stays_open=0.3, codecs=CODECS, tombstones=0.25, retention_ms=(0, HOUR_MS), rounds=7
    ),
}


@dataclass
class Round:
    """Writes, then one pass (several with a full map)."""

    configs: dict[str, str]
    """All configs during the pass."""
    appended: str
    bases: list[int]
    """The base offsets of the segments before the pass."""
    last_stable: int
    aborted_before: list[list[list[int]]]
    """Per segment the entries of its transaction index: producer id, first, last and last stable offset."""
    producers: dict[str, str]
    """Offset -> producer snapshot taken there."""
    passes: list[list[int]] = field(default_factory=list)
    """First dirty offset, end offset, time."""
    segments: list[list[Any]] = field(default_factory=list)
    """Base offset and bytes, after the pass."""
    aborted: list[list[list[int]]] = field(default_factory=list)


class TransactionalProducer:
    """One transactional id; `is_new` speaks version 2."""

    def __init__(self, player: "Player", transactional_id: str, *, is_new: bool) -> None:
        self.player, self.transactional_id, self.is_new = player, transactional_id, is_new
        self.topic = player.topic
        self.producer_id = self.epoch = -1
        self.sequence = 0
        self.in_txn = False
        self.init()

    @property
    def wire(self) -> Wire:
        return self.player.live.wire

    def init(self) -> None:
        had_open = self.in_txn
        end = self.player.log_end()
        if had_open:
            self.player.marker_comes()
        _, self.producer_id, self.epoch = retry(lambda: self.wire.init_producer_id(self.transactional_id))
        if had_open:
            self.player.wait_for_end(end + 1)
        self.sequence, self.in_txn = 0, False

    def add_partition(self) -> None:
        if not self.in_txn and not self.is_new:
            names = (self.topic, self.transactional_id, self.producer_id, self.epoch)
            retry(lambda: (self.wire.add_partition(*names),))
        self.in_txn = True

    def write(self, tombstones: float, codec: str) -> None:
        script = self.player.script
        records = [script.record(tombstones=tombstones) for _ in range(script.rng.randrange(1, 5))]
        self.add_partition()
        batch = encode(
            records,
            codec=codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        produce = self.wire.produce_v12 if self.is_new else self.wire.produce
        retry(lambda: produce(self.topic, batch, self.transactional_id))
        self.sequence += len(records)

    def end(self, *, commit: bool) -> None:
        """End the transaction and wait for its marker."""
        end = self.player.log_end()
        self.player.marker_comes()
        names = (self.transactional_id, self.producer_id, self.epoch)
        if self.is_new:
            _, self.producer_id, self.epoch = retry(lambda: self.wire.end_txn_v5(*names, commit=commit))
            self.sequence = 0
        else:
            retry(lambda: (self.wire.end_txn(*names, commit=commit),))
        self.player.wait_for_end(end + 1)
        self.in_txn = False


def retry(ask: Callable[[], Any]) -> Any:
    """Ask again while markers of the producer's last transaction are being written, or the coordinator starts."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while (answer := ask())[0] in (CONCURRENT_TRANSACTIONS, *COORDINATOR_STARTS) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    if answer[0] != NONE:
        raise UnluckyError(f"a transaction was refused: {answer}")
    return answer


class Live(Protocol):
    """A broker to play on."""

    wire: Wire

    def restart(self, topic: str) -> None:
        """Stop and start the broker, and wait until it leads the topic again."""


class Player(ABC):
    """A player of one history on a broker; subclasses define a pass, and what happens after it.

    Args:
        folder: The partition's directory on the broker's disk.
    """

    def __init__(self, live: Live, topic: str, folder: Path, script: Script, style: str, theme: Theme) -> None:
        self.live, self.topic, self.folder, self.script, self.theme = live, topic, folder, script, theme
        self.producers = [
            TransactionalProducer(self, f"{topic}-{n}", is_new=style == "new" or (style == "mixed" and n % 2 == 0))
            for n in range(theme.producers)
        ]

    @abstractmethod
    def clean(self, retention_ms: int) -> None:
        """Let one pass run, and inspect its result."""

    def marker_comes(self) -> None:  # noqa: B027 - a recorder need not know before
        """The next request ends a transaction."""

    def log_end(self) -> int:
        return self.live.wire.offset_at(self.topic, -1)[1]

    def wait_for_end(self, offset: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while (end := self.log_end()) != offset:
            if end > offset or time.monotonic() > deadline_s:
                raise UnluckyError(f"{self.topic} ends at {end}, not {offset}")
            time.sleep(0.005)

    def play(self) -> None:
        for number in range(self.theme.rounds):
            if self.theme.restarts and number % 2:
                self.live.restart(self.topic)
            for _ in range(self.script.rng.randrange(*self.theme.acts)):
                self.act()
            if self.script.rng.random() >= self.theme.stays_open:
                for producer in self.producers:
                    if producer.in_txn:
                        ends = self.theme.commits + self.theme.aborts
                        producer.end(commit=self.script.rng.random() * ends < self.theme.commits)
            self.seal()
            self.clean(self.theme.retention_ms[number % len(self.theme.retention_ms)])

    def act(self) -> None:
        theme, rng = self.theme, self.script.rng
        if rng.random() < theme.rolls:
            self.script.jump()
        codec = rng.choice(theme.codecs)
        if rng.random() < theme.plain:
            records = [self.script.record(tombstones=theme.tombstones) for _ in range(rng.randrange(1, 4))]
            self.produce(encode(records, codec=codec))
            return
        producer = rng.choice(self.producers)
        chance = rng.random()
        if chance < theme.reinits:
            producer.init()
        elif producer.in_txn and chance < theme.reinits + theme.commits:
            producer.end(commit=True)
        elif producer.in_txn and chance < theme.reinits + theme.commits + theme.aborts:
            producer.end(commit=False)
        elif not producer.in_txn and not producer.is_new and chance < theme.reinits + theme.empties:
            producer.add_partition()
            producer.end(commit=rng.random() < 0.5)
        else:
            producer.write(theme.tombstones, codec)

    def produce(self, batch: bytes) -> None:
        retry(lambda: self.live.wire.produce(self.topic, batch))

    def seal(self) -> None:
        self.script.seal()
        self.produce(bytes.fromhex(self.script.history.steps.pop()["batch"]))


class RecordingPlayer(Player):
    """Plays one history on a live Apache Kafka, and writes down what it leaves."""

    def __init__(self, live: LiveKafka, topic: str, script: Script, style: str, theme: Theme) -> None:
        self.kafka = live
        self.configs = dict(script.history.configs)
        self.recorded_end = 0
        self.horizons: set[int] = set()
        live.bound_map(theme.map_entries)
        live.create_topic(topic, self.configs)
        super().__init__(live, topic, live.process.partition_dir(topic), script, style, theme)

    def clean(self, retention_ms: int) -> None:
        """Record the log, let one pass run, and record its result."""
        changes = LET_GO | {"delete.retention.ms": str(retention_ms)}
        self.configs |= changes
        end = self.log_end()
        stable = self.live.wire.fetch(self.topic, end)[1].last_stable
        done = Round(
            configs=dict(self.configs),
            appended=self.appended().hex(),
            bases=[base_offset(path) for path in segments(self.folder)],
            last_stable=stable,
            aborted_before=self.aborted(),
            producers={
                path.stem.lstrip("0") or "0": path.read_bytes().hex() for path in sorted(self.folder.glob("*.snapshot"))
            },
        )
        before = len(self.kafka.passes(self.topic))
        found = self.kafka.let_pass(self.topic, changes, "any" if self.theme.map_entries is None else "some")
        done.segments = [[base_offset(path), path.read_bytes().hex()] for path in segments(self.folder)]
        done.aborted = self.aborted()
        left = b"".join(bytes.fromhex(data) for _, data in done.segments)
        times = exact_times(self.kafka.beginnings(self.topic)[before:], left, retention_ms, self.horizons)
        done.passes = [[*each, when] for each, when in zip(found, times, strict=True)]
        self.script.history.steps.append(asdict(done))
        self.recorded_end = end

    def appended(self) -> bytes:
        """Return all batches since the end of the last dump."""
        log = b"".join(path.read_bytes() for path in segments(self.folder))
        at = 0
        while at < len(log):
            base, length = HEADER.unpack_from(log, at)[:2]
            if base >= self.recorded_end:
                return log[at:]
            at += 12 + length
        return b""

    def aborted(self) -> list[list[list[int]]]:
        found = []
        for path in segments(self.folder):
            index = path.with_suffix(".txnindex")
            data = index.read_bytes() if index.exists() else b""
            found.append([list(TXN_ENTRY.unpack_from(data, at)[1:]) for at in range(0, len(data), TXN_ENTRY.size)])
        return found


def configs_of(theme: Theme) -> dict[str, str]:
    """Return the configs that the topic is created with."""
    configs = HELD_BACK | {
        "cleanup.policy": "compact",
        "segment.ms": str(ROLL_MS),
        "message.timestamp.after.max.ms": str(30 * DAY_MS),
    }
    if theme.segment_bytes is not None:
        configs["internal.segment.bytes"] = str(theme.segment_bytes)
    return configs


def script_of(history: History) -> Script:
    """Return the script that makes the history's records.

    Their time is later than the markers', which carry the wall clock, so that markers roll no segment.
    """
    script = Script(history, Random(history.seed))
    script.now_ms = history.start_ms + HOUR_MS
    return script


def play(live: LiveKafka, seed: int, style: str, theme_name: str, topic: str) -> History:
    """Play and record one history; its steps are `Round`s."""
    theme = THEMES[theme_name]
    made = History(
        f"transactions-{seed:03d}", f"{style}, {theme_name}", seed, now_ms(), configs_of(theme), theme.map_entries
    )
    RecordingPlayer(live, topic, script_of(made), style, theme).play()
    return made
