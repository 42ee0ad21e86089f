"""Passes that also remove the tombstones of some keys: of these alone, never a newest value, and safe from power losses."""

from __future__ import annotations

import random
from dataclasses import replace
from types import ModuleType

from ottla.protocol.compression import Codec
from ottla.storage.logs.log import Log
from support.cleaner.kernels import both, cleaning_with
from support.disk.crash_files import CrashFiles, disks_left
from support.logs.make_log import append, clean, contents, latest_values, make_log
from support.noted import each_case
from support.sizes import size

ERASED = frozenset({b"a"})


@both
@each_case("codec", Codec)
def test_the_tombstone_goes_with_all_older_records_of_its_key_and_no_other(kernel: ModuleType, codec: Codec) -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), codec=codec, roll=True)
    append(log, ("a", "2"), ("b", None), codec=codec)
    append(log, ("c", "2"), ("a", None), codec=codec, roll=True)
    with cleaning_with(kernel):
        _, stats = clean(log, erased_keys=ERASED)
    assert contents(log) == [(4, b"b", None), (5, b"c", b"2")]
    assert (stats.removed.total, stats.tombstones_written, stats.records_written) == (5, 1, 2)


@both
def test_a_value_that_was_written_after_the_tombstone_stays(kernel: ModuleType) -> None:
    log = make_log()
    append(log, ("a", "1"), ("a", None), ("a", "2"), roll=True)
    with cleaning_with(kernel):
        clean(log, erased_keys=ERASED)
    assert contents(log) == [(2, b"a", b"2")]


@both
def test_older_records_in_the_clean_part_go_and_tombstones_there_only_for_newer_ones(kernel: ModuleType) -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "1"), roll=True)
    append(log, ("a", None), roll=True)
    with cleaning_with(kernel):
        end, _ = clean(log)
        append(log, ("b", "2"), roll=True)
        end, _ = clean(log, end, erased_keys=ERASED)
        assert contents(log) == [(2, b"a", None), (3, b"b", b"2")]
        append(log, ("a", None), roll=True)
        clean(log, end, erased_keys=ERASED)
    assert contents(log) == [(3, b"b", b"2")]


@both
def test_records_beyond_the_range_of_the_pass_keep_their_tombstone(kernel: ModuleType) -> None:
    log = make_log()
    append(log, ("a", "1"), roll=True)
    append(log, ("x", "1"), producer_id=1, transactional=True)
    append(log, ("a", None), roll=True)
    with cleaning_with(kernel):
        clean(log, erased_keys=ERASED)
    assert (0, b"a", b"1") in contents(log) and (2, b"a", None) in contents(log)


@each_case("seed", range(size(60, 500)))
def test_passes_with_and_without_erased_keys_leave_the_same_values(seed: int) -> None:
    rng = random.Random(seed)
    erased = frozenset(b"%d" % number for number in rng.sample(range(12), rng.randint(0, 12)))
    logs = [make_log(), make_log()]
    ends = [0, 0]
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.randint(1, 6)):
            pairs = [(str(rng.randrange(12)), None if rng.random() < 0.4 else "v") for _ in range(rng.randint(1, 8))]
            codec, roll = rng.choice(list(Codec)), rng.random() < 0.5
            for log in logs:
                append(log, *pairs, codec=codec, roll=roll)
        for log in logs:
            log.roll(1_000)
        max_entries = rng.choice([None, 3, 6])
        ends = [
            clean(log, end, max_entries=max_entries, erased_keys=keys)[0]
            for log, end, keys in zip(logs, ends, [erased, frozenset()], strict=True)
        ]
        plain, with_erased = (contents(log) for log in (logs[1], logs[0]))
        assert ends[0] == ends[1]
        gone = [each for each in plain if each not in with_erased]
        assert [each for each in with_erased if each not in plain] == []
        assert all(value is None and key in erased for _, key, value in gone)
        assert _live(logs[0]) == _live(logs[1])


def test_no_older_value_comes_back_after_a_power_loss() -> None:
    """Each group is swapped on disk before the next one, and the tombstone is in the last of them."""
    files = CrashFiles()
    log = make_log(files, segment_bytes=1 << 20)
    append(log, ("a", "1"), ("b", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    append(log, ("a", None), roll=True)
    log.flush(1_000)
    log.close(1_000)
    files.sync_all()

    def scenario(files: CrashFiles) -> None:
        log = make_log(files, recovery_point=4)
        log.config = replace(log.config, segment_bytes=1)  # each segment is a group by itself
        clean(log, erased_keys=ERASED)

    states = 0
    for disk, _ in disks_left(scenario, files, ordered=False, owed=lambda: None, one_in=size(3, 1)):
        states += 1
        found = make_log(disk, recovery_point=4)
        assert [value for _, key, value in contents(found) if key == b"a"][-1:] in ([], [None])
        assert _live(found)[b"b"] == b"1"
    assert states > size(20, 50)


def _live(log: Log) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value in latest_values(log).items() if value is not None}
