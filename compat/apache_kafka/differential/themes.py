"""The histories that are played over the wire: one function a theme, each filling a `Script` by chance.

A seed makes a history wholly, but for the times: those count from the start of the recording, for compaction lags,
retention and the bounds of timestamps compare them with the wall clock.
"""

from collections.abc import Callable
from random import Random

from .batches import CODECS, Sent, encode
from .history import DAY_MS, HELD_BACK, HOUR_MS, History
from .script import ROLL_MS, IdempotentProducer, Script

WAIT_MS = 30
Theme = Callable[[Script], None]


def plain(script: Script) -> None:
    for _ in range(script.rng.randrange(2, 5)):
        script.batches(script.rng.randrange(3, 9))
        script.seal_and_clean()


def codecs(script: Script) -> None:
    chosen = script.rng.choice([("gzip",), ("snappy",), ("lz4",), ("zstd",), CODECS])
    script.configure(delete_retention_ms=script.rng.choice([0, HOUR_MS]))
    for _ in range(3):
        script.batches(6, codecs=chosen, tombstones=0.15, headers=0.2)
        script.seal_and_clean()


def topic_codec(script: Script) -> None:
    """The broker recompresses at produce; the cleaner keeps each batch's own codec, whatever the topic's config is by then."""
    script.configure(compression_type=script.rng.choice(["zstd", "gzip", "uncompressed", "lz4", "snappy"]))
    script.batches(5, codecs=CODECS)
    script.seal_and_clean(compression_type=script.rng.choice(["producer", "lz4", "uncompressed"]))
    script.batches(5, codecs=CODECS, tombstones=0.1)
    script.seal_and_clean()


def tombstones_before_horizon(script: Script) -> None:
    script.configure(delete_retention_ms=HOUR_MS)
    for _ in range(4):
        script.batches(script.rng.randrange(2, 6), tombstones=0.4)
        script.seal_and_clean()


def tombstones_past_horizon(script: Script) -> None:
    script.configure(delete_retention_ms=0)
    for _ in range(4):
        script.batches(script.rng.randrange(2, 6), tombstones=0.4, codecs=script.rng.choice([("none",), CODECS]))
        script.seal_and_clean()


def horizon_outlives_config(script: Script) -> None:
    """A stored horizon counts, whatever `delete.retention.ms` has become since."""
    script.configure(delete_retention_ms=0)
    for retention_ms in (0, DAY_MS, 0, HOUR_MS, 0):
        script.batches(3, tombstones=0.5)
        script.seal_and_clean(delete_retention_ms=retention_ms)


def idempotent(script: Script, tombstones: float = 0.0, codecs: tuple[str, ...] = ("none",)) -> None:
    producers = [IdempotentProducer(script, 7_000 + n) for n in range(script.rng.randrange(1, 4))]
    for _ in range(script.rng.randrange(3, 6)):
        for _ in range(script.rng.randrange(3, 9)):
            if script.rng.random() < 0.25:
                script.jump()
            if script.rng.random() < 0.2:
                script.batch(chances={"tombstones": tombstones})
            else:
                script.rng.choice(producers).write(tombstones=tombstones, codec=script.rng.choice(codecs))
        script.seal_and_clean()


def idempotent_tombstones(script: Script) -> None:
    script.configure(delete_retention_ms=script.rng.choice([0, HOUR_MS]))
    idempotent(script, 0.4, script.rng.choice([("none",), CODECS]))


def min_lag(script: Script) -> None:
    """Young segments hold back all that follow; the lag is lowered from pass to pass."""
    script.configure(min_compaction_lag_ms=HOUR_MS)
    script.batches(4, rolls=0.4, tombstones=0.1)
    if script.rng.random() < 0.5:
        script.seal()
        script.clean()
    script.now_ms = script.history.start_ms - HOUR_MS // 2
    script.batches(4, rolls=0.4)
    script.jump()
    old_ms, young_ms = script.history.start_ms - DAY_MS, script.now_ms
    script.send(encode([script.record(), script.record()._replace(timestamp=old_ms)]))
    script.now_ms = young_ms
    script.seal()
    script.clean(expect="any")
    script.clean(expect="any", min_compaction_lag_ms=script.rng.choice([HOUR_MS // 3, 2 * DAY_MS]))
    script.clean(expect="any", min_compaction_lag_ms=0)


def max_lag(script: Script) -> None:
    """Test max lag: the ratio never allows a pass; an expired lag does."""
    held = {"min.cleanable.dirty.ratio": "1.0"}
    script.batches(5, rolls=0.4)
    script.seal()
    script.step("pass", set=held | {"max.compaction.lag.ms": str(10 * DAY_MS)}, expect="none")
    script.step("pass", set=held | {"max.compaction.lag.ms": str(script.rng.choice([HOUR_MS, DAY_MS]))}, expect="one")
    script.batches(5, rolls=0.4, tombstones=0.2)
    script.seal()
    script.step("pass", set=held | {"max.compaction.lag.ms": str(HOUR_MS)}, expect="one")
    script.now_ms = script.history.start_ms - HOUR_MS // 4  # young from here on
    script.batches(5, rolls=0.4)
    script.seal()
    script.step("pass", set=held | {"max.compaction.lag.ms": str(HOUR_MS)}, expect="any")


def delete_records(script: Script) -> None:
    script.configure(cleanup_policy="compact,delete", retention_ms=-1)
    for _ in range(3):
        script.batches(5, rolls=0.4, tombstones=0.1)
        if script.rng.random() < 0.5:
            script.seal_and_clean()
        script.step("delete", offset=script.rng.randrange(0, script.written + 2))
        script.step("rounds")
        script.batches(2)
        script.seal_and_clean()
    script.step("delete", offset=-1)
    script.step("rounds")
    script.batches(3)
    script.seal_and_clean()


def compact_delete_by_size(script: Script) -> None:
    script.configure(cleanup_policy="compact,delete", retention_ms=-1)
    for _ in range(3):
        script.batches(6, rolls=0.4, tombstones=0.1)
        script.seal_and_clean()
        script.set(retention_bytes=script.rng.randrange(200, 1_500))
        script.step("rounds")
        script.set(retention_bytes=-1)


def compact_delete_by_time(script: Script) -> None:
    script.configure(cleanup_policy="delete,compact", retention_ms=-1)
    for days in (1.5, 0.9, 0.4):
        script.batches(6, rolls=0.5, tombstones=0.1)
        script.seal_and_clean()
        script.now_ms += DAY_MS // 2
        script.batches(2)
        script.seal()
        script.set(retention_ms=int(days * DAY_MS))
        script.step("rounds")
        script.set(retention_ms=-1)


def groups_by_size(script: Script) -> None:
    """Write small segments: several go into one, as many as `segment.bytes` allows; a batch may fill a segment alone."""
    script.configure(internal_segment_bytes=script.rng.randrange(500, 2_000), delete_retention_ms=0)
    script.keys = [b"k%d" % n for n in range(script.rng.randrange(6, 40))]
    for _ in range(4):
        script.batches(script.rng.randrange(6, 16), rolls=0.3, tombstones=0.1)
        script.seal_and_clean()


def groups_by_index(script: Script) -> None:
    """Write an index entry for (almost) every batch, with room for few of them.

    If time does not move only the offset index fills up; otherwise the time index, with its longer entries, is full first.
    """
    script.configure(
        index_interval_bytes=script.rng.choice([0, 1, 200]), segment_index_bytes=script.rng.choice([24, 48, 60, 96])
    )
    script.keys = [b"k%d" % n for n in range(script.rng.randrange(6, 40))]
    still = script.rng.random() < 0.5
    for _ in range(4):
        for _ in range(script.rng.randrange(6, 14)):
            if script.rng.random() < 0.3:
                script.jump()
            stamp_ms = script.now_ms
            records = [script.record() for _ in range(script.rng.randrange(1, 7))]
            if still:
                script.now_ms = stamp_ms
                records = [each._replace(timestamp=stamp_ms) for each in records]
            script.send(encode(records))
        script.seal_and_clean()


def log_append_time(script: Script) -> None:
    """Segments roll by the broker's clock here."""
    chosen = script.rng.choice([("none",), CODECS])
    script.configure(message_timestamp_type="LogAppendTime", segment_ms=WAIT_MS, delete_retention_ms=0)
    for _ in range(3):
        for _ in range(script.rng.randrange(3, 7)):
            script.batch(codec=script.rng.choice(chosen), chances={"tombstones": 0.2})
            if script.rng.random() < 0.3:
                script.wait_before_last(2 * WAIT_MS)
        script.seal()
        script.wait_before_last(2 * WAIT_MS)
        script.clean()


def log_append_time_begins(script: Script) -> None:
    """Write both kinds of timestamps to one log."""
    script.batches(4, tombstones=0.2)
    script.seal_and_clean()
    script.set(message_timestamp_type="LogAppendTime", delete_retention_ms=0)
    script.batches(4, tombstones=0.2)
    script.seal_and_clean()
    script.set(message_timestamp_type="CreateTime", segment_ms=10 * DAY_MS, internal_segment_bytes=900)
    script.batches(8, tombstones=0.2)
    script.seal_and_clean()


def odd_records(script: Script) -> None:
    """Headers, null headers, empty keys and values, tombstones with headers; large ones; many of them."""
    script.configure(delete_retention_ms=script.rng.choice([0, HOUR_MS]))
    chosen = script.rng.choice([("none",), CODECS])
    for _ in range(3):
        script.batches(4, headers=0.5, odd=0.4, tombstones=0.15, codecs=chosen)
        script.batch(40, codec=script.rng.choice(chosen), chances={"headers": 0.3, "odd": 0.2})
        script.send(encode([Sent(script.rng.choice(script.keys), bytes([script.written]) * 3_000, script.now_ms)]))
        script.seal_and_clean()


def keyless(script: Script) -> None:
    """Written while the topic was not compacted; refused afterwards."""
    script.configure(cleanup_policy="delete", retention_ms=-1)
    script.batches(6, rolls=0.3, keyless=0.4, codecs=script.rng.choice([("none",), CODECS]))
    script.seal()
    script.clean(cleanup_policy="compact")
    script.batches(3, keyless=0.3)
    script.seal_and_clean()


def policy_flips(script: Script) -> None:
    script.batches(4)
    script.seal_and_clean()
    script.set(cleanup_policy="delete", retention_ms=-1)
    script.batches(4, keyless=0.3, tombstones=0.2)
    script.seal()
    script.clean(expect="none")
    script.clean(cleanup_policy="compact")
    script.batches(3)
    script.set(cleanup_policy="delete")
    script.set(cleanup_policy="compact,delete")
    script.seal_and_clean()


def refused(script: Script) -> None:
    """Batches that the log refuses, among good ones, where it does not begin at 0."""
    script.configure(
        cleanup_policy="compact,delete", retention_ms=-1, max_message_bytes=600, internal_segment_bytes=500
    )
    script.configure(message_timestamp_before_max_ms=10 * DAY_MS)
    script.batches(4)
    script.step("delete", offset=2)
    for _ in range(2):
        for _ in range(8):
            good = script.record()
            damaged = bytearray(encode([good]))
            damaged[-1] ^= 1
            choices = [
                encode([good]),
                bytes(damaged),
                encode([good._replace(value=bytes(700))]),  # above max.message.bytes
                encode([good._replace(value=bytes(450))]),  # above segment.bytes
                encode([good._replace(timestamp=good.timestamp - 20 * DAY_MS)]),
                encode([good._replace(timestamp=good.timestamp + 40 * DAY_MS)]),
                encode([good, good._replace(key=None)]),
            ]
            script.send(script.rng.choice(choices))
        script.seal_and_clean()


def many_passes(script: Script) -> None:
    script.configure(delete_retention_ms=script.rng.choice([0, 0, HOUR_MS]))
    producer = IdempotentProducer(script, 9_000)
    for _ in range(10):
        script.batches(script.rng.randrange(1, 4), tombstones=0.25, codecs=script.rng.choice([("none",), CODECS]))
        if script.rng.random() < 0.4:
            producer.write(tombstones=0.5)
        script.seal_and_clean()


def times_in_batches(script: Script) -> None:
    """Base timestamps that are no record's, times that run backwards, large distances, no times at all."""
    script.configure(segment_ms=100 * DAY_MS, internal_segment_bytes=1_200, delete_retention_ms=HOUR_MS)
    for _ in range(3):
        for _ in range(8):
            records = [script.record(tombstones=0.15) for _ in range(script.rng.randrange(2, 7))]
            kind = script.rng.randrange(5)
            if kind == 1:
                records = [each._replace(timestamp=-1) for each in records]
            elif kind == 2:
                records = [each._replace(timestamp=script.rng.randrange(script.now_ms)) for each in records]
            elif kind == 3:
                records.sort(key=lambda each: -each.timestamp)
            base_ms = script.now_ms - script.rng.randrange(-DAY_MS, DAY_MS) if kind == 4 else None
            script.send(encode(records, base_timestamp=base_ms, codec=script.rng.choice(("none", "none", "zstd"))))
        script.send(encode([Sent(b"fill", bytes(900), script.now_ms)]))
        script.send(encode([Sent(b"fill", bytes(901), script.now_ms)]))
        script.clean()


def full_map(script: Script) -> None:
    """The map takes few keys, so a pass ends inside a batch and the next begins there, until all is done."""
    script.history.map_entries = script.rng.choice([3, 5, 9])
    script.keys = [b"key-%02d" % n for n in range(25)]
    for _ in range(2):
        for _ in range(10):
            if script.rng.random() < 0.2:
                script.jump()
            script.batch(script.rng.randrange(1, 9), codec=script.rng.choice(("none", "none", "lz4")))
        script.seal()
        script.clean(expect="many")


def everything(script: Script) -> None:
    script.configure(
        cleanup_policy=script.rng.choice(["compact", "compact,delete"]),
        retention_ms=-1,
        internal_segment_bytes=script.rng.choice([1_000, 3_000, 1_000_000]),
        delete_retention_ms=script.rng.choice([0, 0, HOUR_MS]),
    )
    producers = [IdempotentProducer(script, 8_000 + n) for n in range(2)]
    for _ in range(5):
        for _ in range(script.rng.randrange(4, 10)):
            if script.rng.random() < 0.25:
                script.jump()
            if script.rng.random() < 0.5:
                script.rng.choice(producers).write(tombstones=0.25, codec=script.rng.choice(CODECS))
            else:
                chances = {"headers": 0.2, "odd": 0.1, "tombstones": 0.2}
                script.batch(codec=script.rng.choice(CODECS), chances=chances)
        if "delete" in script.history.configs["cleanup.policy"] and script.rng.random() < 0.4:
            script.step("delete", offset=script.rng.randrange(script.written // 2))
            script.step("rounds")
        script.seal_and_clean(delete_retention_ms=script.rng.choice([0, HOUR_MS]))


THEMES: tuple[Theme, ...] = (
    plain,
    codecs,
    topic_codec,
    tombstones_before_horizon,
    tombstones_past_horizon,
    horizon_outlives_config,
    idempotent,
    idempotent_tombstones,
    min_lag,
    max_lag,
    delete_records,
    compact_delete_by_size,
    compact_delete_by_time,
    groups_by_size,
    groups_by_index,
    log_append_time,
    log_append_time_begins,
    odd_records,
    keyless,
    policy_flips,
    refused,
    many_passes,
    times_in_batches,
    full_map,
    everything,
)


def history(seed: int, start_ms: int) -> History:
    """Return the history of one seed; its theme is that of `seed` modulo their number."""
    theme = THEMES[seed % len(THEMES)]
    configs = HELD_BACK | {
        "cleanup.policy": "compact",
        "segment.ms": str(ROLL_MS),
        "message.timestamp.after.max.ms": str(30 * DAY_MS),
    }
    made = History(f"wire-{seed:03d}", theme.__name__, seed, start_ms, configs)
    theme(Script(made, Random(seed)))
    return made
