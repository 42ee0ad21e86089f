"""Each reason why a record of a key is still in a log, and what is said about the time at which it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.compression import Codec
from ottla.storage.disk import paths
from ottla.storage.erasure import record_fates
from ottla.storage.erasure.findings import Fate, Findings, Tally
from ottla.storage.erasure.log_search import LOOKS_MAX, LogSearch
from ottla.storage.erasure.places import KEY_BYTES_MAX, Contents, KeyReport, Place, Verdict, Why
from ottla.storage.erasure.record_fates import LogState
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, batch, broken, old_message
from support.logs.make_log import DAY_MS, TP, append, append_marker, clean, make_log
from support.noted import each_case

NOW_MS = 10_000


def report_of(log: Log, *keys: bytes, clean_below: int | None = None, now_ms: int = NOW_MS) -> KeyReport:
    state = LogState(config=log.config, clean_below=clean_below, log_start_offset=log.log_start_offset)
    search = LogSearch(log.files, log.directory, TP, keys or (b"a",), now_ms, state=state)
    return to_the_end(search.steps()).report("t", now_ms, ["/data"], [])


def places_of(log: Log, **options: Any) -> list[Place]:
    report = report_of(log, **options)
    assert report.unread == ()
    return list(report.places)


def reasons(places: list[Place]) -> list[tuple[int, Why]]:
    return sorted((each.first_offset, each.why) for each in places)


def rolled(log: Log) -> None:
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)


def in_open_transaction(log: Log) -> None:
    append(log, ("x", "1"), producer_id=1, transactional=True)
    append(log, ("a", "1"))
    append(log, ("a", "2"), roll=True)


def aborted(log: Log) -> None:
    append(log, ("a", "1"), producer_id=1, transactional=True)
    append_marker(log, ABORT, 1)
    append(log, ("b", "2"), roll=True)


def in_active_segment(log: Log) -> None:
    rolled(log)
    append(log, ("a", "3"))


def committed(log: Log) -> None:
    append(log, ("a", "1"), producer_id=1, transactional=True)
    append_marker(log, COMMIT, 1)
    append(log, ("a", "2"), roll=True)


def undecided(log: Log) -> None:
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), producer_id=1, transactional=True)


def tombstone(log: Log) -> None:
    append(log, ("a", "1"), roll=True)
    append(log, ("a", None), roll=True)


CASES: list[tuple[str, Callable[[Log], None], dict[str, Any], list[tuple[int, Why]]]] = [
    ("superseded", rolled, {}, [(0, Why.NOT_CLEANED_YET), (1, Why.LIVE)]),
    ("a newer one in the active segment", in_active_segment, {},
     [(0, Why.NOT_CLEANED_YET), (1, Why.ACTIVE_SEGMENT), (2, Why.LIVE)]),
    ("young", rolled, {"min_compaction_lag_ms": DAY_MS}, [(0, Why.MIN_COMPACTION_LAG), (1, Why.LIVE)]),
    ("behind an open transaction", in_open_transaction, {}, [(1, Why.OPEN_TRANSACTION), (2, Why.LIVE)]),
    ("aborted", aborted, {}, [(0, Why.ABORTED)]),
    ("committed", committed, {}, [(0, Why.NOT_CLEANED_YET), (2, Why.LIVE)]),
    ("in an open transaction", undecided, {}, [(0, Why.LIVE), (1, Why.OPEN_TRANSACTION)]),
    ("deleted", tombstone, {}, [(0, Why.NOT_CLEANED_YET), (1, Why.TOMBSTONE_RETENTION)]),
    ("by version", rolled, {"ottla_compaction_strategy": "timestamp"}, [(0, Why.VERSIONED), (1, Why.VERSIONED)]),
    ("not compacted", rolled, {"cleanup_policy": ("delete",)}, [(0, Why.NOT_COMPACTED), (1, Why.NOT_COMPACTED)]),
]  # fmt: skip


@each_case("name, write, config, expected", CASES)
def test_each_record_has_its_reason(
    name: str, write: Callable[[Log], None], config: dict[str, Any], expected: list[tuple[int, Why]]
) -> None:
    log = make_log(**config)
    write(log)
    assert reasons(places_of(log)) == expected, name


def test_the_newest_value_may_go_by_its_age() -> None:
    log = make_log(ottla_key_retention_ms=DAY_MS)
    rolled(log)
    assert f"ottla.key.retention.ms={DAY_MS}" in places_of(log)[1].explanation


def test_superseded_records_of_the_clean_part_need_another_tombstone() -> None:
    log = make_log()
    rolled(log)
    assert reasons(places_of(log, clean_below=2)) == [(0, Why.SUPERSEDED_IN_CLEAN_PART), (1, Why.LIVE)]
    append(log, ("a", None), roll=True)
    assert reasons(places_of(log, clean_below=2))[:2] == [(0, Why.NOT_CLEANED_YET), (1, Why.NOT_CLEANED_YET)]


def test_replaced_files_go_after_their_delay_and_tombstones_after_their_horizon() -> None:
    log = make_log(file_delete_delay_ms=5_000, delete_retention_ms=7_000)
    tombstone(log)
    clean(log, now_ms=2_000)
    found = places_of(log, clean_below=2, now_ms=8_000)
    assert [(each.why, each.values, each.tombstones, each.not_before_ms, each.at_the_latest_ms) for each in found] == [
        (Why.TOMBSTONE_RETENTION, 0, 1, 9_000, None),
        (Why.DELETED_FILE, 1, 0, None, 13_000),
        (Why.DELETED_FILE, 0, 1, None, 13_000),
    ]
    assert places_of(log, clean_below=2, now_ms=9_000)[0].why is Why.NOT_CLEANED_YET


def test_times_follow_from_the_options_of_the_topic() -> None:
    log = make_log(min_compaction_lag_ms=DAY_MS)
    rolled(log)
    assert places_of(log)[0].not_before_ms == 1_000 + DAY_MS
    log = make_log(max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio=1.0)
    rolled(log)
    assert [each.at_the_latest_ms for each in places_of(log)] == [1_000 + DAY_MS, None]
    log = make_log(cleanup_policy=("delete",), retention_ms=DAY_MS)
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"))
    assert [each.at_the_latest_ms for each in places_of(log)] == [1_000 + DAY_MS, None]


def test_a_young_segment_may_begin_below_the_dirty_part() -> None:
    log = make_log(min_compaction_lag_ms=DAY_MS)
    append(log, ("x", "0"), ("a", "1"), ("a", "2"), roll=True)
    (older, newest) = places_of(log, clean_below=1)
    assert (older.why, older.not_before_ms) == (Why.MIN_COMPACTION_LAG, 1_000 + DAY_MS)
    assert newest.why is Why.LIVE


def test_records_below_the_log_start_are_still_in_the_file() -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "1"))
    log.advance_log_start(1)
    assert reasons(places_of(log)) == [(0, Why.BELOW_LOG_START)]


@each_case("codec", Codec)
def test_records_of_each_codec_are_found(codec: Codec) -> None:
    log = make_log()
    append(log, ("x" * 1_000, "1"), ("a", "2"), ("x" * 1_000, "3"), codec=codec)
    (place,) = places_of(log)
    assert (place.first_offset, place.values, place.key, place.newest_timestamp_ms) == (1, 1, "a", 1_000)


def test_markers_and_values_that_contain_the_key_are_not_places() -> None:
    log = make_log()
    append(log, ("b", "a"), ("aa", "1"), producer_id=1, transactional=True)
    append_marker(log, COMMIT, 1)
    report = report_of(log, b"a", b"\0\0\0\1")
    assert report.verdict is Verdict.GONE and report.places == ()


@each_case("count", [1, 8, 9, 100])
def test_any_number_of_keys_is_searched_for(count: int) -> None:
    log = make_log()
    append(log, *((f"k{number}", "v") for number in range(50)))
    keys = [b"k%d" % number for number in range(count)]
    report = report_of(log, *keys)
    assert report.values_found == min(count, 50) == len(report.places)
    assert [each.values for each in report.keys] == [int(int(each.key[1:]) < 50) for each in report.keys]


def test_keys_that_are_no_text_are_shown_in_base64() -> None:
    log = make_log()
    append(log, (b"\xff\0", "1"))
    (place,) = report_of(log, b"\xff\0").places
    assert (place.key, place.key_encoding) == ("/wA=", "base64")


# What cannot be searched


def with_tail(log: Log, data: bytes) -> None:
    file = log.files.open(paths.log_path(log.directory, log.segments.active.base_offset))
    file.append(data)
    file.close()


DAMAGE = [
    ("half a batch", bytes(batch(("b", "1"), base_offset=1))[:-1]),
    ("other bytes", b"x" * 100),
    ("a wrong CRC", bytes(broken(batch(("b", "1"), base_offset=1), -1))),
    ("an old format", old_message(1, 1)),
]


@each_case("name, data", DAMAGE)
def test_bytes_that_cannot_be_searched_prevent_a_proof(name: str, data: bytes) -> None:
    log = make_log()
    append(log, ("b", "1"))
    with_tail(log, data)
    report = report_of(log)
    assert report.verdict is Verdict.UNPROVEN and len(report.unread) == 1, name
    assert "not searched" in report.unread[0].problem


def test_zeros_at_the_end_are_space_that_apache_kafka_has_reserved() -> None:
    log = make_log()
    append(log, ("b", "1"))
    with_tail(log, bytes(100_000))
    assert report_of(log).verdict is Verdict.GONE


def test_unknown_files_prevent_a_proof_and_known_ones_are_listed() -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("b", "1"))
    log.close(1_000)
    report = report_of(log)
    assert report.verdict is Verdict.GONE
    assert {each.contents for each in report.files} == {Contents.RECORDS, Contents.NO_KEYS}
    files.open(paths.join(log.directory, "copy.bak"), create=True).close()
    files.open(paths.log_path(log.directory, 7) + paths.TEMPORARY, create=True).close()
    files.make_dir(paths.join(log.directory, "more"))
    report = report_of(log)
    assert report.verdict is Verdict.UNPROVEN
    unread = sorted(each.path.rpartition("/")[2] for each in report.unread)
    assert unread == ["00000000000000000007.log.tmp", "copy.bak", "more"]


# Bounds


def test_more_places_than_a_report_lists_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    for number in range(5):
        append(log, ("a", "1"), ("b", None if number % 2 else "2"), roll=True)
    everything = report_of(log, b"a", b"b")
    assert everything.are_all_listed and len(everything.places) == 10
    monkeypatch.setattr(record_fates, "PLACES_MAX", 3)
    found = report_of(log, b"a", b"b")
    assert len(found.places) == 3 and not found.are_all_listed
    assert (found.keys, found.values_found, found.tombstones_found) == (everything.keys, 8, 2)


def test_places_of_large_keys_are_listed_up_to_a_number_of_bytes() -> None:
    key = bytes(KEY_BYTES_MAX // 4)

    def findings(places: int) -> Findings:
        found = Findings([key])
        for number in range(places):
            found.add(f"/{number}", TP, key, Fate(Why.LIVE, ""), Tally(values=1))
        return found

    def listed(found: Findings) -> tuple[int, int, bool]:
        report = found.report("t", NOW_MS, [], [])
        return len(report.places), report.values_found, report.are_all_listed

    assert listed(findings(4)) == (4, 4, True)
    assert listed(findings(6)) == (4, 6, False)
    merged = findings(3)
    merged.merge(findings(2))
    assert listed(merged) == (3, 5, False)
    merged = findings(2)
    merged.merge(findings(2))
    assert listed(merged) == (4, 4, True)


# Changes during a search


def test_a_search_begins_again_when_a_pass_replaces_files() -> None:
    log = make_log()
    tombstone(log)
    state = LogState(config=log.config)
    pauses = []
    search = LogSearch(log.files, log.directory, TP, [b"a"], NOW_MS, state=state, pause=lambda: pauses.append(1))
    steps = search.steps()
    next(steps)
    clean(log)
    report = to_the_end(steps).report("t", NOW_MS, [], [])
    assert len(pauses) == 1 and report.unread == ()
    assert [each.path.rpartition("/")[2] for each in report.places] == [
        "00000000000000000000.log",
        "00000000000000000000.log.deleted",
        "00000000000000000001.log.deleted",
    ]


def test_appends_and_rolls_do_not_disturb_a_search() -> None:
    log = make_log()
    append(log, ("a", "1"))
    search = LogSearch(log.files, log.directory, TP, [b"a"], NOW_MS, state=LogState(config=log.config))
    steps = search.steps()
    next(steps)
    append(log, ("a", "2"), roll=True)
    append(log, ("a", "3"))
    report = to_the_end(steps).report("t", NOW_MS, [], [])
    assert (report.values_found, report.unread) == (1, ())


def test_an_append_in_progress_is_no_problem() -> None:
    """The body of a large batch is in the file before its head."""
    log = make_log()
    append(log, ("b", "1"))
    path = paths.log_path(log.directory, 0)
    made = bytes(batch(("a", "2"), base_offset=1))
    with_tail(log, bytes(61) + made[61:])

    def finish() -> None:
        file = log.files.open(path)
        file.truncate(file.size() - len(made))
        file.append(made)
        file.close()

    search = LogSearch(log.files, log.directory, TP, [b"a"], NOW_MS, state=LogState(config=log.config), pause=finish)
    report = to_the_end(search.steps()).report("t", NOW_MS, [], [])
    assert (report.unread, report.values_found) == ((), 1)


def test_a_search_gives_up_when_files_change_each_time() -> None:
    log = make_log()
    append(log, ("b", "1"), roll=True)

    def rename() -> None:
        path = paths.log_path(log.directory, 0)
        file = log.files.open(path)
        data = file.read_at(0, file.size())
        file.close()
        log.files.remove(path)
        copy = log.files.open(path, create=True)
        copy.append(data)
        copy.close()

    steps = LogSearch(
        log.files, log.directory, TP, [b"a"], NOW_MS, state=LogState(config=log.config), pause=rename
    ).steps()
    next(steps)
    searches = 0
    while True:
        rename()
        try:
            next(steps)
        except StopIteration as end:
            report = end.value.report("t", NOW_MS, [], [])
            break
        searches += 1
    assert searches >= LOOKS_MAX
    assert report.verdict is Verdict.UNPROVEN and "changed" in report.unread[0].problem
