"""Random histories of a log: generated from a number, run through the real cleaner and the model, shrunk when they fail.

A plain generator, not Hypothesis: ten thousand histories cost no more than running them, and a number always names the same
history. Any step may be left out, so histories shrink well without further help.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from support.cleaner.cleaner_pair import Pair
from support.logs.model_log import ABORT, COMMIT

MAX_LONG = 2**63 - 1
KEYS: tuple[bytes | None, ...] = (b"a", b"b", b"c", b"d", b"e", b"f", b"", b"k" * 40, b"k" * 41, b"l" * 60, b"m" * 60)
LOOK_ALIKES = (b"\0\0\0\0", b"\0\0\0\1")
"""The keys of markers."""
VALUES = (b"1", b"2", b"", None, None, b"v" * 150, b"\0\0\0\0\0\0")
HEADERS = ((), (), (("h", b"1"),), (("h", None), ("", b"")))

CONFIG: dict[str, Sequence[Any]] = {
    "segment_bytes": (1 << 20, 1 << 20, 400, 700, 1500),
    "segment_ms": (MAX_LONG, MAX_LONG, 700),
    "segment_index_bytes": (1 << 20, 1 << 20, 36, 60),
    "index_interval_bytes": (0, 100, 100, 4096),
    "delete_retention_ms": (1000, 300, 300, 0),
    "min_compaction_lag_ms": (0, 0, 0, 300),
    "max_compaction_lag_ms": (MAX_LONG, MAX_LONG, 900),
    "min_cleanable_dirty_ratio": (0.5, 0.0, 1.0),
    "message_timestamp_type": ("CreateTime", "CreateTime", "CreateTime", "LogAppendTime"),
    "cleanup_policy": (("compact",), ("compact",), ("compact", "delete")),
    "retention_ms": (-1, 2_500),
    "retention_bytes": (-1, -1, 1_000),
    "expiration_ms": (86_400_000, 86_400_000, 1_500),
}
POLICIES = (("compact",), ("compact",), ("delete",))
CHANGEABLE = tuple(name for name in CONFIG if name != "expiration_ms")


class Step:
    """A call of one of Pair's methods."""

    def __init__(self, name: str, *places: Any, **arguments: Any) -> None:
        self.name = name
        self.places = places
        self.arguments = arguments

    def __repr__(self) -> str:
        what = [repr(each) for each in self.places] + [f"{name}={each!r}" for name, each in self.arguments.items()]
        return f"Step({', '.join([repr(self.name), *what])})"

    def take(self, pair: Pair) -> None:
        getattr(pair, self.name)(*self.places, **self.arguments)


class History:
    """A configuration and the steps that follow."""

    def __init__(self, steps: Sequence[Step], **config: Any) -> None:
        self.steps = list(steps)
        self.config = config

    def __repr__(self) -> str:
        steps = "".join(f"        {step!r},\n" for step in self.steps)
        config = "".join(f"    {name}={value!r},\n" for name, value in self.config.items())
        return f"History(\n    [\n{steps}    ],\n{config})"

    def run(self, pair_type: type[Pair] = Pair) -> Pair:
        """Run the history. Raises AssertionError where the two differ, and whatever the real log raises."""
        pair = pair_type(**self.config)
        pair.met.update(self.config.keys())
        for step in self.steps:
            step.take(pair)
            pair.met[step.name] += 1
            pair.assert_same_outline()
            if step.name in ("restart", "kill", "lose_power"):
                pair.assert_same()
        pair.assert_same()
        return pair


def random_history(seed: int | str) -> History:
    """Return the history of this number."""
    return _Maker(random.Random(seed)).make()


VERSION_HEADERS = (
    (),
    *[(("v", number.to_bytes(8, "big", signed=True)),) for number in (-(2**63), -7, 0, 1, 2, 2, 256)],
    (("v", (5).to_bytes(8, "big")), ("v", (1).to_bytes(8, "big"))),
    (("v", (5).to_bytes(8, "big")), ("v", b"short")),
    (("v", None), ("w", (9).to_bytes(8, "big"))),
)


def random_versions(seed: int | str) -> History:
    """Return a history of this number in which versions decide which record of a key stays (KIP-280)."""
    history, rng = random_history(f"versions {seed}"), random.Random(seed)
    strategies = rng.choice((("timestamp",), ("header",), ("header",), ("timestamp", "header", "offset")))
    history.config |= {"ottla_compaction_strategy": strategies[0], "ottla_compaction_strategy_header": "v"}
    for step in history.steps:
        if step.name == "write":
            step.arguments |= {
                "headers": rng.choice(VERSION_HEADERS),
                "ages_ms": tuple(rng.choice((0, 0, 1, 500, 2_000, None)) for _ in range(rng.randint(1, 3))),
            }
    for strategy in strategies[1:]:
        at = rng.randrange(len(history.steps))
        history.steps.insert(at, Step("configure", ottla_compaction_strategy=strategy))
    return history


def random_ages(seed: int | str) -> History:
    """Return a history of this number in which records go for their age, in some of them with versions."""
    rng = random.Random(seed)
    history = random_versions(f"ages {seed}") if rng.random() < 0.3 else random_history(f"ages {seed}")
    ages_ms = (0, 300, 600, 2_000, -1)
    history.config["ottla_key_retention_ms"] = rng.choice(ages_ms)
    for step in history.steps:
        if step.name == "write" and rng.random() < 0.7:
            step.arguments["ages_ms"] = tuple(
                rng.choice((0, 0, 300, 1_000, -200, None)) for _ in range(rng.randint(1, 3))
            )
    for _ in range(rng.choice((0, 0, 1, 2))):
        history.steps.insert(
            rng.randrange(len(history.steps)), Step("configure", ottla_key_retention_ms=rng.choice(ages_ms))
        )
    for _ in range(rng.choice((0, 2, 4))):
        at = rng.randrange(len(history.steps))
        history.steps[at:at] = [Step("wait", rng.choice((300, 700, 2_000))), Step("clean")]
    return history


class _Maker:
    """A generator of histories. Each history uses a few kinds of steps, chosen at random, which then meet often."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._keys = rng.sample(KEYS, rng.randint(2, 6)) + [key for key in LOOK_ALIKES if rng.random() < 0.2]
        self._has_keyless = rng.random() < 0.2
        if self._has_keyless:
            self._keys += [None, None]
        self._producers = rng.sample((-1, -1, 1, 2, 3), rng.randint(1, 4))
        self._codecs = [0, *rng.sample((1, 2, 3, 4), rng.choice((0, 0, 1, 2)))]
        self._ages_ms = rng.choice(((0,), (0,), range(300), range(-200, 1_200), (None, None, 0)))
        self._headers = rng.random() < 0.3
        self._has_transactions = max(self._producers) > 0 and rng.random() < 0.6
        self._max_entries = rng.choice(((None,), (None,), (None, 1, 2, 3, 4)))
        self._many = rng.choice((0, 0, 0, 0.15))
        self._gives_up = rng.random() < 0.25
        self._io_buffer_bytes = rng.choice((1, 300, 1 << 19))
        kinds: list[tuple[int, Callable[[], Step]]] = [
            (12, self._write),
            (rng.choice((0, 2, 5)), lambda: Step("roll")),
            (4, lambda: Step("wait", rng.choice((1, 300, 300, 1_000, 3_000)))),
            (7, self._clean),
        ]
        if self._has_transactions:
            kinds.append((rng.choice((5, 8, 12)), self._end_txn))
        if max(self._producers) > 0:
            kinds.append((1, lambda: Step("send_again", self._producer())))
        if self._has_keyless:
            kinds.append((3, lambda: Step("configure", cleanup_policy=rng.choice(POLICIES))))
            kinds.append((2, lambda: Step("delete_records", rng.random())))
        rare: list[Callable[[], Step]] = [
            lambda: Step("wait", -rng.choice((1, 300, 1_500))),
            lambda: Step("configure", **self._changed()),
            lambda: Step("configure", **self._changed()),
            lambda: Step("fit_groups", rng.choice((2, 2, 3)), rng.choice(("log", "index")), spare=rng.choice((0, -1))),
            lambda: Step("delete_records", rng.random()),
            lambda: Step("retain"),
            lambda: Step("restart"),
            lambda: Step("kill", knows_recovery_point=rng.random() < 0.5),
            lambda: Step("lose_power", rng.randrange(4)),
            lambda: Step("flush"),
            lambda: Step("move_checkpoint", rng.choice((None, rng.random()))),
            lambda: Step("init_producer", self._producer()),
            lambda: Step("lone_marker", self._producer(), rng.choice((ABORT, COMMIT))),
            lambda: Step("forget_idle_producers"),
            lambda: Step("write", self._pairs(), producer=self._producer(), from_sequence_0=True),
        ]
        kinds += [(rng.choice((1, 2)), make) for make in rare if rng.random() < 0.25]
        self._weights, self._kinds = zip(*kinds, strict=True)

    def make(self) -> History:
        rng = self._rng
        config = {name: rng.choice(values) for name, values in CONFIG.items() if rng.random() < 0.6}
        if self._has_keyless:
            config["cleanup_policy"] = ("delete",)
        if self._gives_up:
            config["segment_bytes"] = 250  # several groups, so that a pass can end between two
        if rng.random() < 0.1:
            config["holes"] = self._holes()
        length = rng.choice((10, 20, 20, 30, 30, 50, 50, 120))
        steps = [rng.choices(self._kinds, self._weights)[0]() for _ in range(length)]
        if rng.random() < 0.3:
            config["keeps_range_end"] = True
        return History([*steps, Step("clean", seal=True)], **config)

    def _holes(self) -> tuple[tuple[int, ...], ...]:
        """Return segments with gaps in them and between them, about as wide as the span of a group."""
        rng = self._rng
        bases = [0, *sorted(rng.sample((1, 4, 2**30, *range(2**31 - 1, 2**31 + 3), 2**32), rng.randint(2, 5)))]
        segments = []
        for base, following in zip(bases, [*bases[1:], bases[-1] + 9], strict=True):
            end = min(following, base + 2**31)
            offsets = {rng.choice((base, end - 1, rng.randrange(base, end))) for _ in range(rng.randint(0, 3))}
            segments.append((base, *sorted(offsets)))
        return tuple(segments)

    def _pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        rng = self._rng
        return [(rng.choice(self._keys), rng.choice(VALUES)) for _ in range(rng.choice((1, 1, 2, 3, 5)))]

    def _producer(self) -> int:
        return self._rng.choice([each for each in self._producers if each > 0] or [1])

    def _write(self) -> Step:
        rng = self._rng
        arguments: dict[str, Any] = {}
        if rng.random() < self._many:
            # The cleaner works on 64 records at a time.
            arguments["times"] = rng.choice((13, 21, 33, 64, 65))
        if (producer := rng.choice(self._producers)) > 0:
            arguments["producer"] = producer
            if self._has_transactions and rng.random() < 0.7:
                arguments["transactional"] = True
        if codec := rng.choice(self._codecs):
            arguments["codec"] = codec
        if len(self._ages_ms) > 1:
            arguments["ages_ms"] = tuple(rng.choice(self._ages_ms) for _ in range(rng.randint(1, 3)))
        if self._headers and (headers := rng.choice(HEADERS)):
            arguments["headers"] = headers
        return Step("write", self._pairs(), **arguments)

    def _end_txn(self) -> Step:
        rng = self._rng
        return Step("end_txn", rng.choice((1, 2, 3)), rng.choice((ABORT, COMMIT)), bump=rng.random() < 0.4)

    def _clean(self) -> Step:
        arguments: dict[str, Any] = {"io_buffer_bytes": self._io_buffer_bytes}
        if self._rng.random() < 0.8:
            arguments["seal"] = True
        if self._gives_up and self._rng.random() < 0.5:
            how = self._rng.choice(("give_up_after", "give_up_after", "die_after"))
            arguments[how] = self._rng.randrange(self._rng.choice((3, 10, 30, 90)))
        if (entries := self._rng.choice(self._max_entries)) is not None:
            arguments["max_entries"] = entries
        return Step("clean", **arguments)

    def _changed(self) -> dict[str, Any]:
        name = self._rng.choice(CHANGEABLE)
        return {name: self._rng.choice(CONFIG[name])}


def fails(history: History, pair_type: type[Pair] = Pair) -> Exception | None:
    """Return what the history raises; None if log and model agree."""
    try:
        history.run(pair_type)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the finding
        return error
    return None


def describe_failure(
    seed: int | str, pair_type: type[Pair] = Pair, make: Callable[[int | str], History] = random_history
) -> str:
    """Return, for a failing history, how it was made, the smallest one that still fails, and where."""
    history = make(seed)
    kind = type(fails(history, pair_type))  # another error is another fault
    smallest = shrink(history, lambda smaller: type(fails(smaller, pair_type)) is kind)
    error = fails(smallest, pair_type)
    where = "".join(traceback.format_exception(error))
    run = "run()" if pair_type is Pair else f"run({pair_type.__name__})"
    return f"history {seed!r}: {make.__name__}({seed!r}).{run} fails, and so does\n\n{smallest!r}.{run}\n\n{where}"


def shrink(history: History, is_bad: Callable[[History], bool]) -> History:
    """Return a smaller history that still fails: fewer steps, arguments and options, shorter batches."""
    assert is_bad(history)
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(history):
            if is_bad(smaller):
                history, progress = smaller, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    steps, config = history.steps, history.config
    size = len(steps)
    while size:
        for start in range(0, len(steps), size):
            yield History(steps[:start] + steps[start + size :], **config)
        size //= 2
    for name in config:
        yield History(steps, **{other: value for other, value in config.items() if other != name})
    for at, step in enumerate(steps):
        for simpler in _simpler(step):
            yield History([*steps[:at], simpler, *steps[at + 1 :]], **config)


def _simpler(step: Step) -> Iterator[Step]:
    for name in step.arguments:
        yield Step(step.name, *step.places, **{key: each for key, each in step.arguments.items() if key != name})
    if step.name == "write":
        (pairs,) = step.places
        for at in range(len(pairs)) if len(pairs) > 1 else ():
            yield Step("write", [*pairs[:at], *pairs[at + 1 :]], **step.arguments)
