"""Histories of a compacted partition during which power is lost: the initial disk, and the steps on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.storage.segment.index_file import RELATIVE_OFFSET_MAX
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.disk.crash_search import CrashSearch
from support.disk.crash_subsets import CHANGES_MAX
from support.lives.compacted_life import DATA_DIR, TOPIC_ID, TP, Broker, CompactedLife, History, Owed, check
from support.logs.batches import ABORT, COMMIT, batch, marker
from support.logs.make_log import delete_old_segments, flush_sealed

Steps = Callable[[CompactedLife], None]

FIRST_MS, SECOND_MS, THIRD_MS = 2_000, 100_000, 1_000_000
"""Times of the passes. Records that one gives a delete horizon are dropped by the next."""

# Every batch but a segment's first has an index entry.
COMPACTED = LogConfig(
    cleanup_policy=("compact",),
    delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0.0,
    index_interval_bytes=0,
    file_delete_delay_ms=0,
)
FAR = RELATIVE_OFFSET_MAX + 1


@dataclass(frozen=True)
class Story:
    """One history: the steps of `before` run undisturbed, each on a start of its own, and are durable; power may be lost in
    `steps`.

    `segment_bytes` holds for `steps` and every start after it, so it decides how segments are grouped.
    """

    before: tuple[tuple[int, Steps], ...]
    steps: Steps
    now_ms: int = SECOND_MS
    segment_bytes: int = 900

    def prepare(self) -> tuple[CrashFiles, History]:
        files, history = CrashFiles(), History()
        files.make_dir(DATA_DIR)
        for now_ms, steps in self.before:
            CompactedLife(replace(COMPACTED, segment_bytes=1 << 20), now_ms, steps, history)(files)
            files.sync_all()
            files = files.copy()
        return files, history

    def search(
        self,
        *,
        losses: int,
        thinned_to: int = 1,
        recover_thinned_to: int = 1,
        later_thinned_to: int = 1,
        wrong_max: int | None = None,
        skipped: Callable[[str], bool] | None = None,
        changes_max: int = CHANGES_MAX,
        lost_at_most: int = 2,
    ) -> CrashSearch[Broker, Owed]:
        """Lose power wherever it can be lost, and check the results.

        `skipped`, `changes_max` and `lost_at_most` are as in CrashFiles, the others as in CrashSearch.
        """
        files, history = self.prepare()
        files.skipped, files.lost_at_most, files.changes_max = skipped, lost_at_most, changes_max
        config = replace(COMPACTED, segment_bytes=self.segment_bytes)
        life = CompactedLife(config, self.now_ms, self.steps, history)
        search: CrashSearch[Broker, Owed] = CrashSearch(
            recover=lambda disk: Broker(disk, config, self.now_ms),
            key=Broker.key,
            check=lambda broker, owed: check(broker, owed, history),
            losses=losses,
            thinned_to=thinned_to,
            recover_thinned_to=recover_thinned_to,
            later_thinned_to=later_thinned_to,
            wrong_max=wrong_max,
        )
        search.run(life, files, life.owed)
        return search


def create(life: CompactedLife) -> None:
    assert life.broker is not None
    life.broker.manager.create([TP], topic_id=TOPIC_ID, config=life.config, now_ms=life.now_ms, elapsed_ms=life.now_ms)


def fill(life: CompactedLife) -> None:
    """Write superseded values, a tombstone with a horizon, idempotent producers, a committed and an aborted transaction."""
    create(life)
    life.append(("c", "1"))
    life.append(("c", None), roll=True)
    clean(life)
    life.append(("b", "0"), producer_id=1)
    life.append(("a", "aborted"), ("e", "aborted"), producer_id=2, transactional=True)
    life.append(("g", "1"), producer_id=3, transactional=True)
    life.append(("a", "1"), ("d", "1"))
    life.end_transaction(COMMIT, 3, roll=True)
    life.append(("a", "2"), ("b", "2"))
    life.end_transaction(ABORT, 2, roll=True)
    life.append(("a", "3"), ("x" * 40, "y" * 500), producer_id=1)
    life.append(("x" * 40, None), ("e", "1"), roll=True)
    life.append(("f", "1"))
    life.flush()


def clean(life: CompactedLife) -> None:
    assert life.broker is not None
    life.broker.clean()
    life.broker.remove_deleted_files()


def clean_while_appending(life: CompactedLife) -> None:
    """Run a pass, and an append during it that is never flushed."""
    assert life.broker is not None
    life.broker.clean(between=lambda: life.append(("a", "4"), ("h", "1"), producer_id=1))


def clean_unflushed_segment(life: CompactedLife) -> None:
    """Run a second pass over a segment that was just rolled; then remove the deleted files."""
    life.append(("a", "5"), ("d", None), producer_id=1)
    life.log.roll(1_000)
    clean(life)


def clean_in_two_passes(life: CompactedLife) -> None:
    """Fill the map in the last segment, so that another pass follows at once, with no roll and no flush in between."""
    assert life.broker is not None
    life.broker.clean(max_entries=5)
    life.broker.clean()


def supersede_all(life: CompactedLife) -> None:
    """Write one more segment, with a newer value or a tombstone of nearly every key; the clean part is due again."""
    for key in ("a", "b", "e", "f", "g"):
        life.append((key, "9"), producer_id=1)
    life.append(("d", None), producer_id=3)
    life.log.roll(1_000)
    life.append(("i", "1"))
    life.flush()


def map_that_ends_in_a_batch(life: CompactedLife) -> None:
    """Run a pass whose map ends before a tombstone, which still gets its horizon; its value stays."""
    assert life.broker is not None
    create(life)
    life.append(("a", "1"), roll=True)
    life.append(("k", "1"), roll=True)
    life.append(("b", "1"), ("k", None), roll=True)
    life.append(("b", "2"))
    life.reconfigure(segment_bytes=1)
    life.broker.clean(max_entries=3)
    life.broker.remove_deleted_files()
    life.reconfigure(segment_bytes=1 << 20)
    life.append(("c", "1"), roll=True)
    life.append(("d", "1"))
    life.flush()


def retain(life: CompactedLife) -> None:
    """Run a pass, write new values of some keys, then delete everything older by time."""
    assert life.broker is not None
    life.append(("a", "9"), roll=True, timestamp=THIRD_MS)
    life.append(("b", "9"), timestamp=THIRD_MS)
    life.flush()
    life.reconfigure(cleanup_policy=("compact", "delete"), retention_ms=50_000)
    delete_old_segments(life.log, THIRD_MS, THIRD_MS)
    life.broker.manager.checkpoint_log_starts()
    life.broker.remove_deleted_files()


def stop(life: CompactedLife) -> None:
    assert life.broker is not None
    life.broker.manager.close(life.now_ms)


def abort_and_roll(life: CompactedLife) -> None:
    """Abort a transaction in a segment that a clean stop has seen, which is flushed once it is rolled."""
    assert life.broker is not None
    life.append(("a", "aborted"), producer_id=4, transactional=True)
    life.end_transaction(ABORT, 4, roll=True)
    flush_sealed(life.log, life.now_ms)
    life.broker.manager.checkpoint_recovery_points()
    life.append(("j", "1"))


def overflow(life: CompactedLife) -> None:
    """Create a segment 5 with three ranges of offsets, 2^31 apart; a transaction in each of the last two is aborted."""
    create(life)
    life.append(("a", "0"), ("b", "0"), ("c", "0"), ("d", "0"), producer_id=1)
    life.append(("e", "0"), roll=True)
    life.append(("a", "1"), producer_id=1)
    life.append(("a", "aborted"), producer_id=2, transactional=True)
    life.append(("b", "aborted"), producer_id=3, transactional=True)
    life.append_beyond(FAR + 5, marker(ABORT, producer_id=2))
    life.append_beyond(FAR + 6, batch(("c", "1")))
    life.append_beyond(2 * FAR + 6, marker(ABORT, producer_id=3))
    life.append_beyond(2 * FAR + 7, batch(("d", "1")))
    life.log.roll(1_000)
    life.append(("e", "1"), producer_id=1)
    life.flush()


def overflow_wholly(life: CompactedLife) -> None:
    """Create a segment 2 in which the offset of no batch fits."""
    create(life)
    life.append(("a", "0"), ("b", "0"), roll=True)
    life.append_beyond(FAR + 5, batch(("a", "1")))
    life.append_beyond(FAR + 6, batch(("b", "1")))
    life.log.roll(1_000)
    life.append(("c", "1"))
    life.flush()


def nothing(_: CompactedLife) -> None:
    """Do nothing: a start is enough."""


LIVES: dict[str, Story] = {
    "a pass while somebody appends": Story(((FIRST_MS, fill),), clean_while_appending),
    "a second pass on top": Story(((FIRST_MS, fill), (SECOND_MS, clean)), clean_unflushed_segment, segment_bytes=700),
    "two passes, as the map is small": Story(((FIRST_MS, fill),), clean_in_two_passes),
    "segments that become empty": Story(
        ((FIRST_MS, fill), (SECOND_MS, clean), (SECOND_MS, supersede_all)), clean, now_ms=THIRD_MS
    ),
    "a group whose last segments lose everything": Story(
        ((FIRST_MS, map_that_ends_in_a_batch),), clean, now_ms=THIRD_MS, segment_bytes=220
    ),
    "retention": Story(((FIRST_MS, fill),), retain, now_ms=THIRD_MS),
    "a start, an abort, a roll": Story(((FIRST_MS, fill), (SECOND_MS, stop)), abort_and_roll),
    "a split at start": Story(((FIRST_MS, overflow),), nothing),
    "a split where no batch fits": Story(((FIRST_MS, overflow_wholly),), nothing),
}
