"""Random histories with planted keys: each place that still has one is found, none is named wrongly, and the reasons are true."""

from __future__ import annotations

import random
from collections import Counter

from ottla.storage.disk import paths
from ottla.storage.erasure.places import KeyReport, Why, key_bytes
from ottla.storage.erasure.search import Search
from ottla.storage.steps import to_the_end
from support.logs.planted import DATA, Planted, occurrences
from support.noted import each_case
from support.sizes import size

REMOVED = {Why.NOT_CLEANED_YET, Why.ABORTED}
"""Reasons of records that the next pass removes."""
KEPT = {
    Why.LIVE,
    Why.ACTIVE_SEGMENT,
    Why.OPEN_TRANSACTION,
    Why.MIN_COMPACTION_LAG,
    Why.TOMBSTONE_RETENTION,
    Why.SUPERSEDED_IN_CLEAN_PART,
}
"""Reasons of records that the next pass keeps."""


def searched(planted: Planted) -> KeyReport:
    planted.write_checkpoints()
    search = Search(planted.files, planted.sources, "t", planted.keys, planted.now_ms, config=planted.log.config)
    return to_the_end(search.steps())


def by_key(report: KeyReport, reasons: set[Why]) -> Counter[bytes]:
    """Count the records of each key that the log has for these reasons."""
    found: Counter[bytes] = Counter()
    for each in report.places:
        if each.why in reasons:
            found[key_bytes(each.key, each.key_encoding)] += each.values + each.tombstones
    return found


@each_case("seed", range(size(60, 500)))
def test_every_place_with_a_planted_key_is_found_and_no_other(seed: int) -> None:
    planted = Planted(random.Random(seed))
    planted.run(40)
    report = searched(planted)
    assert report.unread == () and report.are_all_listed
    keys: Counter[tuple[str, bytes]] = Counter()
    values: Counter[tuple[str, bytes]] = Counter()
    for each in report.places:
        place = each.path, key_bytes(each.key, each.key_encoding)
        keys[place] += each.values + each.tombstones
        values[place] += each.values
    expected_keys, expected_values = occurrences(planted)
    assert keys == expected_keys
    assert +values == expected_values
    assert report.values_found == expected_values.total() == sum(each.values for each in report.keys)
    assert report.values_found + report.tombstones_found == expected_keys.total()


@each_case("seed", range(size(60, 500)))
def test_the_next_pass_removes_what_the_report_says(seed: int) -> None:
    planted = Planted(random.Random(seed))
    planted.run(40)
    before = searched(planted)
    if not planted.clean():
        return
    after = by_key(searched(planted), KEPT | REMOVED | {Why.BELOW_LOG_START})
    kept, unsure = by_key(before, KEPT), by_key(before, {Why.BELOW_LOG_START})
    for key in planted.keys:
        assert kept[key] <= after[key] <= kept[key] + unsure[key], by_key(before, REMOVED)[key]


def test_the_histories_have_all_that_they_are_about() -> None:
    reasons: set[Why] = set()
    for seed in range(60):
        planted = Planted(random.Random(seed))
        planted.run(40)
        reasons |= {each.why for each in searched(planted).places}
    assert reasons >= KEPT - {Why.SUPERSEDED_IN_CLEAN_PART} | REMOVED | {
        Why.BELOW_LOG_START,
        Why.DELETED_FILE,
        Why.CLEANED_FILE,
        Why.SWAP_FILE,
        Why.DELETED_PARTITION,
        Why.FUTURE_PARTITION,
        Why.STRAY_PARTITION,
        Why.SNAPSHOT,
    }


def test_the_search_of_bytes_sees_a_key_that_the_report_would_miss() -> None:
    """The oracle is independent: a key in a file that no search looks at is an occurrence."""
    planted = Planted(random.Random(1))
    planted.run(5)
    file = planted.files.open(paths.join(DATA, "notes.txt"), create=True)
    file.append(b"see " + planted.keys[0])
    file.close()
    keys, _ = occurrences(planted)
    assert keys[paths.join(DATA, "notes.txt"), planted.keys[0]] == 1
