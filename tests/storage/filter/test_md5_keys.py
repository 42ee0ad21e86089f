"""Different keys with one MD5 digest: Apache Kafka's cleaner takes them for one key, Ottla's keeps both."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

import pytest

from ottla.storage.logs.log import Log
from support.logs.batches import Pair
from support.logs.make_log import append, clean, contents, latest_values, make_log

LINES = (Path(__file__).parents[1] / "data" / "md5_pairs.txt").read_text().splitlines()
KEYS = [bytes.fromhex(line) for line in LINES if line and line[0] != "#"]
PLAIN = list(zip(KEYS[::2], KEYS[1::2], strict=True))
SUFFIXED = [(a + suffix, b + suffix) for a, b in PLAIN[:2] for suffix in (b"-1", b"/orders/7", bytes(100))]
PAIRS = [*PLAIN, *SUFFIXED]
VERSIONS: list[list[Pair]] = [
    [(key, b"old") for pair in PAIRS for key in pair],
    [(first, b"first") for first, _ in PAIRS],
    [(second, b"second") for _, second in PAIRS],
]
"""Two versions of each key: one superseded, one to be kept."""
NEWEST = {first: b"first" for first, _ in PAIRS} | {second: b"second" for _, second in PAIRS}
CODECS = pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])


def assert_newest_of_every_key_alone(log: Log) -> None:
    assert latest_values(log) == NEWEST
    assert len(contents(log)) == len(NEWEST)


def test_each_pair_has_different_keys_and_one_digest() -> None:
    assert len(PLAIN) == 3
    for first, second in PAIRS:
        assert first != second
        assert md5(first).digest() == md5(second).digest()


@CODECS
def test_nothing_is_lost_in_one_batch(codec: int) -> None:
    log = make_log()
    append(log, *[pair for version in VERSIONS for pair in version], codec=codec, roll=True)
    clean(log)
    assert_newest_of_every_key_alone(log)


@CODECS
def test_nothing_is_lost_across_segments(codec: int) -> None:
    log = make_log()
    for version in VERSIONS:
        append(log, *version, codec=codec, roll=True)
    clean(log)
    assert_newest_of_every_key_alone(log)


@CODECS
def test_nothing_is_lost_across_passes(codec: int) -> None:
    log = make_log()
    first_dirty_offset = 0
    for version in VERSIONS:
        append(log, *version, codec=codec, roll=True)
        first_dirty_offset, _ = clean(log, first_dirty_offset)
    assert_newest_of_every_key_alone(log)


@CODECS
def test_a_tombstone_removes_only_its_own_key(codec: int) -> None:
    log = make_log()
    append(log, *VERSIONS[1], *VERSIONS[2], codec=codec, roll=True)
    append(log, *[(second, None) for _, second in PAIRS], codec=codec, roll=True)
    clean(log)
    assert latest_values(log) == {first: b"first" for first, _ in PAIRS} | {second: None for _, second in PAIRS}
