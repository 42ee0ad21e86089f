"""Tools of the histories' generators: steps, records, batches, and a producer that numbers its batches."""

from dataclasses import dataclass
from random import Random
from typing import Any

from .batches import Sent, encode
from .history import DAY_MS, LET_GO, History

ROLL_MS = 60_000


class Script:
    """Writes a history, step by step; `now_ms` is the time that its records carry, two days ago at first.

    Segments roll by record time: `jump` moves it on by more than `segment.ms`.
    """

    def __init__(self, history: History, rng: Random) -> None:
        self.history, self.rng = history, rng
        self.now_ms = history.start_ms - 2 * DAY_MS
        self.keys = [b"key-%02d" % n for n in range(rng.randrange(4, 10))]
        self.written = 0

    def configure(self, **configs: object) -> None:
        """Set configs with which the topic is created."""
        self.history.configs |= {name.replace("_", "."): str(value) for name, value in configs.items()}

    def step(self, do: str, **fields: Any) -> None:
        self.history.steps.append({"do": do, **fields})

    def send(self, batch: bytes) -> None:
        self.step("produce", batch=batch.hex())

    def wait_before_last(self, wait_ms: int) -> None:
        """Let real time pass before the last step, for topics whose records carry the broker's."""
        self.history.steps[-1]["wait_ms"] = wait_ms

    def set(self, **configs: object) -> None:
        self.step("configs", set={name.replace("_", "."): str(value) for name, value in configs.items()})

    def jump(self) -> None:
        self.now_ms += 2 * ROLL_MS

    def record(self, *, tombstones: float = 0.0, headers: float = 0.0, odd: float = 0.0, keyless: float = 0.0) -> Sent:
        """Return a record of one of the keys; the arguments are probabilities.

        `odd` records have an empty key or an empty value.
        """
        rng = self.rng
        self.written += 1
        self.now_ms += rng.randrange(500)
        key: bytes | None = rng.choice(self.keys)
        value: bytes | None = b"value %d of %s" % (self.written, key) + b"." * rng.randrange(20)
        if rng.random() < odd:
            key, value = rng.choice([(b"", value), (key, b""), (b"", b"")])
        if rng.random() < tombstones:
            value = None
        if rng.random() < keyless:
            key = None
        return Sent(
            key, value, self.now_ms + rng.randrange(-3_000, 3_000), self._headers() if rng.random() < headers else ()
        )

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        choices: list[tuple[str, bytes | None]] = [
            ("a", b"1"),
            ("a", b"2"),
            ("", b""),
            ("null", None),
            ("ünï", b"\0\xff"),
        ]
        return tuple(self.rng.choices(choices, k=self.rng.randrange(1, 4)))

    def batch(
        self, records: int | None = None, *, codec: str = "none", chances: dict[str, float] | None = None
    ) -> None:
        count = self.rng.randrange(1, 7) if records is None else records
        self.send(encode([self.record(**(chances or {})) for _ in range(count)], codec=codec))

    def batches(self, count: int, *, codecs: tuple[str, ...] = ("none",), rolls: float = 0.2, **chances: float) -> None:
        """Plain batches; `rolls` is the chance that a new segment begins before one."""
        for _ in range(count):
            if self.rng.random() < rolls:
                self.jump()
            self.batch(codec=self.rng.choice(codecs), chances=chances)

    def seal(self) -> None:
        """Append a record in a new segment, so that all before it may be cleaned."""
        self.jump()
        self.written += 1
        self.send(encode([Sent(b"seal", b"%d" % self.written, self.now_ms)]))

    def clean(self, expect: str = "one", **configs: object) -> None:
        """Add one pass; `configs` are set together with those that release the cleaner, and stay set."""
        settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.step("pass", set=LET_GO | settings, expect=expect)

    def seal_and_clean(self, **configs: object) -> None:
        self.seal()
        self.clean("one", **configs)


@dataclass
class IdempotentProducer:
    """Numbers its batches, and sometimes sends one again, skips numbers or is fenced."""

    script: Script
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    last: bytes = b""

    def write(self, *, codec: str = "none", tombstones: float = 0.0) -> None:
        rng = self.script.rng
        chance = rng.random()
        if self.last and chance < 0.08:
            self.script.send(self.last)  # answered as the first time, written once
        elif self.last and chance < 0.12:
            self._send(self.epoch, self.sequence + 3, codec, tombstones)  # a gap: refused
        elif self.epoch and chance < 0.16:
            self._send(self.epoch - 1, self.sequence, codec, tombstones)  # fenced: refused
        else:
            if self.last and chance < 0.24:
                self.epoch, self.sequence = self.epoch + 1, 0
            self.sequence += self._send(self.epoch, self.sequence, codec, tombstones)

    def _send(self, epoch: int, sequence: int, codec: str, tombstones: float) -> int:
        records = [self.script.record(tombstones=tombstones) for _ in range(self.script.rng.randrange(1, 6))]
        batch = encode(records, codec=codec, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        if (epoch, sequence) == (self.epoch, self.sequence):
            self.last = batch
        self.script.send(batch)
        return len(records)
