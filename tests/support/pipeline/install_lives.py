"""A compacted partition of a stopped server, with a plan and its result: the starting point of installs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ottla.pipeline.compaction.local import compact_locally
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import group_directory, save_plan
from ottla.pipeline.install.install import install
from ottla.pipeline.install.install_steps import (
    GroupProgress,
    choose,
    is_plan_installed,
    link_originals,
    mark_installed,
    mark_plan_installed,
    pending_groups,
    present_sources,
)
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import open_log
from ottla.storage.disk.checkpoints import write_partition_metadata
from ottla.storage.disk.paths import SNAPSHOT
from ottla.storage.logs.log import Log
from ottla.storage.logs.staged_segment import MANIFEST_FILE, bring_in, size_and_crc
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CatalogState, PartitionEntry, TopicEntry
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.disk.crash_search import Counts, CrashSearch
from support.lives.compacted_life import DATA_DIR, TOPIC_ID, TP, Broker, CompactedLife, History, Owed, check
from support.lives.crash_lives import (
    COMPACTED,
    FIRST_MS,
    SECOND_MS,
    Steps,
    clean,
    fill,
    map_that_ends_in_a_batch,
    stop,
    supersede_all,
)
from support.logs.make_log import SECRET

SEGMENT_BYTES = 900
"""The segment size for grouping: two or three of the written segments go into one group."""


@dataclass(frozen=True)
class Staged:
    """A disk on which everything is ready to be installed, and all records that were ever appended."""

    files: CrashFiles
    plan: CompactionPlan
    history: History
    config: LogConfig

    @property
    def owed(self) -> Owed:
        return Owed(self.history.end, self.history.end, 0)

    def copy(self) -> CrashFiles:
        return self.files.copy()

    def segments(self, files: CrashFiles) -> dict[str, bytes]:
        """Return path -> bytes of the plan's segments."""
        upper = f"{self.plan.directory}/{self.plan.upper_offset:020}"
        return {
            path: data
            for path, data in files.snapshot().items()
            if path.startswith(f"{self.plan.directory}/0") and path < upper and not path.endswith(SNAPSHOT)
        }


def staged(*steps: Steps, segment_bytes: int = SEGMENT_BYTES, clean_stop: bool = True) -> Staged:
    """Go through a history (default: `fill`), stop, plan and compact."""
    files, history = CrashFiles(), History()
    files.make_dir(DATA_DIR)
    entry = TopicEntry(TP.topic, TOPIC_ID, (PartitionEntry((0,), 0),), {"cleanup.policy": "compact"})
    Catalog.create(files, DATA_DIR, CatalogState("c", {TP.topic: entry}))
    for number, each in enumerate(steps or (fill,)):
        CompactedLife(replace(COMPACTED, segment_bytes=1 << 20), FIRST_MS + number, each, history)(files)
        files.sync_all()
        files = files.copy()
    if clean_stop:
        CompactedLife(replace(COMPACTED, segment_bytes=1 << 20), SECOND_MS, stop, history)(files)
    write_partition_metadata(files, f"{DATA_DIR}/{TP}", TOPIC_ID)
    config = replace(COMPACTED, segment_bytes=segment_bytes)
    with open_log(Store(DATA_DIR, files), TP, now_ms=SECOND_MS, config=config) as log:
        plan = make_plan(log, data_dir=DATA_DIR, checkpoint=log.cleaner_checkpoint, now_ms=SECOND_MS, secret=SECRET)
    save_plan(files, plan)
    compact_locally(plan, source_files=files, files=files)
    files.sync_all()
    files = files.copy()
    files.lost_at_most = 2
    return Staged(files, plan, history, config)


INSTALLS: dict[str, Callable[[], Staged]] = {
    "after a clean stop": staged,
    "after a crash": lambda: staged(clean_stop=False),
    "a group whose last segments lose everything": lambda: staged(map_that_ends_in_a_batch, segment_bytes=220),
    "over segments that were compacted": lambda: staged(fill, clean, supersede_all),
}


def run_offline(life: Staged, files: CrashFiles) -> None:
    """Install without a server."""
    assert install(life.plan, files, now_ms=SECOND_MS, keep_originals=False).is_complete


def run_online(life: Staged, files: CrashFiles) -> None:
    """Do the file operations of server and driver in an install through a server, from its start to the end of the cleanup."""
    broker, plan = Broker(files, life.config, SECOND_MS), life.plan
    pending = pending_groups(plan, files)
    for group, state in choose(pending, None, plan, files).items():
        link_originals(plan, group, state, files)
        if state is not GroupProgress.IN_PLACE:
            bases = [plan.sources[number].base_offset for number in present_sources(plan, group, files)]
            bring_group_in(broker.log, group_directory(plan, group), bases)
        mark_installed(plan, group, files, SECOND_MS)
    if not is_plan_installed(plan, files):
        broker.cleaning.cleaned_elsewhere(broker.log, plan.upper_offset)
        mark_plan_installed(plan, files, SECOND_MS)
    broker.remove_deleted_files()
    broker.manager.release()


def bring_group_in(log: Log, directory: str, bases: Sequence[int]) -> None:
    """Install a group as `CleaningLeases.install` does, in one thread."""
    old = [segment for segment in log.segments if segment.base_offset in bases]
    following = log.segments.higher(old[-1].base_offset)
    assert following is not None
    manifest_crc = size_and_crc(log.files, f"{directory}/{MANIFEST_FILE}")[1]
    unsynced = log.begin_flush()
    end_offset = following.base_offset
    new = bring_in(
        log, old, directory, manifest_crc, end_offset=end_offset, unsynced=unsynced, now_ms=SECOND_MS
    )  # fmt: skip
    log.prepare_swap([new], old)
    log.commit_swap([new], old, SECOND_MS)


RUNS: dict[str, Callable[[Staged, CrashFiles], None]] = {"offline": run_offline, "online": run_online}


def search(
    life: Staged,
    *,
    how: str = "offline",
    with_server: bool,
    losses: int,
    thinned_to: int = 1,
    recover_thinned_to: int = 1,
    later_thinned_to: int = 1,
) -> Counts:
    """Lose power before every operation of an install. Then a server starts, or not, and the install is called again.

    An install through a server (`how` is one of `RUNS`) begins with a server's start, each time.

    The log must mean the same whenever it is opened, and the second install must leave what an undisturbed one leaves.
    """

    run = partial(RUNS[how], life)
    undisturbed = life.copy()
    run(undisturbed)

    def check_all(broker: Broker, owed: Owed) -> None:
        again = broker.files.copy()
        run(again)
        assert life.segments(again) == life.segments(undisturbed)
        for each in (Broker(again, life.config, SECOND_MS), broker):
            check(each, owed, life.history)

    def recover(disk: CrashFiles) -> Broker:
        if not with_server:
            run(disk)
        return Broker(disk, life.config, SECOND_MS)

    found: CrashSearch[Broker, Owed] = CrashSearch(
        recover=recover,
        key=Broker.key,
        check=check_all,
        losses=losses,
        thinned_to=thinned_to,
        recover_thinned_to=recover_thinned_to,
        later_thinned_to=later_thinned_to,
    )
    return found.run(run, life.files, lambda _: life.owed)
