"""Installation of a compaction's staged segments in place of their sources: the only code that writes to a log's directory.

    lock        the server's own, of the data directory: if it is held, nothing is done
    recovery    the server's own first step: a swap that a crash has left half-done is finished or undone
    check       the segments of all groups that are not in the log yet are those that were planned
    ownership   staged files get the owner, group and mode of those that they replace, or everything is refused
    for each group, in order, one at a time
        originals   hard links to all files that are replaced, in <staging>/originals
        swap        hard links to the staged files are made as `.cleaned`; then `storage.logs.swap`, as after a cleaner's pass
        mark        <staging>/<group>/installed; the staged names are deleted
    checkpoint  of the cleaner: the log is clean up to the plan's upper offset

Groups are installed in order, because a tombstone that a group leaves out must not disappear before the older values in the
groups below it. They are installed one at a time, because Apache Kafka takes everything between two unfinished swaps for
replaced.

After a crash or a power loss at any time, with or without a run of the server in between, the log's contents are the same,
and another call of `install` continues (`install_steps.group_state`). If a server was stopped during a swap, the new
segment may be in place, followed by some of the replaced ones: then the swap is done again, over all of them.

Groups that the server's own cleaner has cleaned since are no longer those that were planned. That ends this plan without
harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...storage.data_dirs import clean_stop
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, OffsetCheckpoint
from ...storage.disk.files import Files, Ownership
from ...storage.disk.paths import TopicPartition
from ...storage.logs.staged_segment import StagedSegment
from ...storage.logs.swap import finish_swaps, is_begun, swap_files
from ...storage.produce import producer_snapshots
from ...storage.segment.cleaned import discard
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..compaction.plan import CompactionPlan
from ..compaction.survey import Surveying, survey_segments
from ..errors import SourceChangedError, StoreLockedError, UsageError
from ..stores.store import Store
from ..stores.stored_log import open_log
from .install_steps import (
    GroupProgress,
    check_age,
    checked_stage,
    choose,
    give_to_server,
    is_plan_installed,
    link_originals,
    mark_installed,
    mark_plan_installed,
    on_one_file_system,
    pending_groups,
    present_sources,
    to_swap,
)

OnGroup = Callable[[int], None]
"""Called with each group once it is in the log."""


@dataclass(frozen=True, slots=True)
class InstallResult:
    """Result of one call."""

    installed: tuple[int, ...]
    """Numbers of the groups that it installed."""
    left: tuple[int, ...]
    """Numbers of the groups that are left for another call."""

    @property
    def is_complete(self) -> bool:
        return not self.left


def install(
    plan: CompactionPlan,
    files: Files,
    *,
    now_ms: int,
    max_groups: int | None = None,
    keep_originals: bool = True,
    overrides: Mapping[str, str] | None = None,
    on_group: OnGroup = lambda _: None,
    store: Store | None = None,
    survey: Surveying = survey_segments,
    is_verified: bool = False,
) -> InstallResult:
    """Install the staged groups of a plan in the log of a stopped server. Another call continues an interrupted one.

    Args:
        max_groups: Number of groups to install; None is all. Later groups need not be staged then.
        keep_originals: Keep the replaced files until the plan is forgotten.
        overrides: Topic configs that the store does not have.
        store: The data directory of the plan, if it is open.
        survey: Reads the headers of the segments to replace.
        is_verified: All staged files were just read and found valid.

    Raises:
        StoreLockedError: A server holds the data directory.
        SourceChangedError: A segment is not the planned one, the topic is no longer compacted, or the plan is
            stale. Groups that were already installed stay.
        UsageError: A group is not staged, its files are damaged, or they cannot be given to the owner of the log.
        CorruptSourceError: A segment cannot be read.
        OSError: The disk failed. Nothing is lost; call again.
    """
    with locked(files, plan.data_dir):
        if is_plan_installed(plan, files):
            return InstallResult((), ())
        pending = pending_groups(plan, files)
        _check_is_compacted(plan, store or Store(plan.data_dir, files), overrides)
        _recover(plan, files, now_ms)
        chosen = choose(pending, max_groups, plan, files, survey)
        check_age(plan, to_swap(chosen), now_ms)
        give_to_server(plan, to_swap(chosen), files)
        for group, state in chosen.items():
            is_new = state is not GroupProgress.IN_PLACE
            staged = checked_stage(plan, group, files, is_read=not is_verified) if is_new else None
            if keep_originals:
                link_originals(plan, group, state, files)
            if staged is not None:
                _take_out_of_mark(files, plan.data_dir, plan.topic_partition)
                _swap(plan, staged, present_sources(plan, group, files), files, now_ms)
            mark_installed(plan, group, files, now_ms)
            on_group(group)
        left = tuple(group for group in pending if group not in chosen)
        if not left:
            _write_checkpoint(plan, files)
            mark_plan_installed(plan, files, now_ms)
    return InstallResult(tuple(chosen), left)


@contextmanager
def locked(files: Files, data_dir: str) -> Iterator[None]:
    """Hold a data directory as a server does.

    Raises:
        StoreLockedError: A server holds it; the text has what is known of that server.
        UsageError: The lock file is missing, and this process cannot make one that the server could open. No file is left.
    """
    path = paths.join(data_dir, paths.LOCK_FILE)
    is_new = not files.exists(path)
    try:
        lock = files.lock(path)
    except BlockingIOError as error:
        raise StoreLockedError(f"{error}: stop that server, or install through it") from error
    try:
        if is_new:
            try:
                _give(files, path, _ownership_in(files, data_dir))
            except PermissionError as error:
                files.remove(path)  # the server could not start with a lock file that only this user may open
                raise UsageError(f"{path} cannot be made for the owner of {data_dir}: install as that owner") from error
        yield
    finally:
        lock.release()


def roll(files: Files, store: Store, tp: TopicPartition, now_ms: int) -> int:
    """Close the active segment of `tp`, if it has records, so that a plan may include it.

    Returns the base offset of the segment that is active then.

    After a clean stop the files that a roll writes exist already: whole indexes, and a snapshot of the producers at the log's
    end. So a roll only adds an empty segment, and removes the log from the mark of the clean stop.

    Raises:
        StoreLockedError: A server holds the directory.
        UsageError: The last server did not stop cleanly; only its next start finds the log's end.
        PipelineError: As `open_log`.
        OSError: The disk failed; the log is unchanged.
    """
    with locked(files, store.data_dir):
        if not store.is_clean:
            raise UsageError(
                f"{store.data_dir} was not stopped cleanly, which --include-active needs: start the server and stop it"
            )
        with open_log(store, tp, now_ms=now_ms, config=LogConfig()) as log:
            active = log.segments.active
            if active.size_bytes == 0:
                return active.base_offset
            end = log.log_end_offset
            owned = files.ownership(active.file_paths()[0])
        _take_out_of_mark(files, store.data_dir, tp)
        path = paths.log_path(store.directory_of(tp), end)
        files.open(path, create=True).close()
        _give(files, path, owned)
        files.sync_dir(store.directory_of(tp))
        return end


def _check_is_compacted(plan: CompactionPlan, store: Store, overrides: Mapping[str, str] | None) -> None:
    is_known = store.catalog is not None or store.catalog_is_elsewhere
    if is_known and not (config := store.config_of(plan.topic, overrides)).is_compact:
        policy = ",".join(config.cleanup_policy)
        raise SourceChangedError(f"{plan.topic}: expected cleanup.policy compact as planned, found {policy}")


def _recover(plan: CompactionPlan, files: Files, now_ms: int) -> None:
    if not files.is_dir(plan.directory):
        raise SourceChangedError(f"{plan.directory}: expected the log of plan {plan.plan_id}, found no directory")

    def next_offset_of(base_offset: int, suffix: str) -> int:
        segment = LogSegment.open(files, plan.directory, base_offset, plan.log_config, now_ms, suffix)
        try:
            return segment.next_offset()
        finally:
            segment.log_file.close()

    finish_swaps(files, plan.directory, next_offset_of)


def _swap(plan: CompactionPlan, staged: StagedSegment, numbers: Sequence[int], files: Files, now_ms: int) -> None:
    """Replace these sources by a staged segment. Their files are deleted on return."""
    bases = [plan.sources[number].base_offset for number in numbers]
    old = [_by_name(LogSegment.open(files, plan.directory, base, plan.log_config, now_ms)) for base in bases]
    new: list[LogSegment] = []
    try:
        with on_one_file_system(plan):
            new.append(staged.link_into(files, plan.directory, plan.log_config, now_ms))
        producer_snapshots.remove_undecided(files, plan.directory, plan.upper_offset)
        swap_files(files, plan.directory, new, old)
    except BaseException:
        if not is_begun(new):
            discard(files, plan.directory, ())
        raise
    finally:
        for segment in new:
            segment.log_file.close()
    for segment in old:
        segment.delete_files()
        files.remove(paths.snapshot_path(plan.directory, segment.base_offset, paths.DELETED))
    files.sync_dir(plan.directory)


def _by_name(segment: LogSegment) -> LogSegment:
    """Close a segment that is only renamed and deleted: there may be more of them than this process may have files open."""
    segment.log_file.close()
    return segment


def _write_checkpoint(plan: CompactionPlan, files: Files) -> None:
    checkpoint = OffsetCheckpoint(files, paths.join(plan.data_dir, paths.CLEANER_CHECKPOINT))
    try:
        offsets = checkpoint.read()
    except CorruptCheckpointError:
        offsets = {}  # as the server does: all other logs are cleaned from their start
    known = offsets.get(plan.topic_partition, 0)
    owned = files.ownership(checkpoint.path) if files.exists(checkpoint.path) else None
    checkpoint.write(offsets | {plan.topic_partition: max(known, plan.upper_offset)})
    _give(files, checkpoint.path, owned or _ownership_in(files, plan.data_dir))


def _take_out_of_mark(files: Files, data_dir: str, tp: TopicPartition) -> None:
    """Remove the log from the clean-stop mark, so that the server's next start does not take its new files for damage."""
    mark = paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE)
    if files.exists(mark):
        owned = files.ownership(mark)
        clean_stop.forget(files, data_dir, str(tp))
        _give(files, mark, owned)


def _ownership_in(files: Files, directory: str) -> Ownership:
    """Return the ownership of a file that the directory's owner makes there."""
    owner = files.ownership(directory)
    return owner._replace(mode=owner.mode & 0o666)


def _give(files: Files, path: str, ownership: Ownership) -> None:
    """Give a file that this process has made to the server's user."""
    if files.ownership(path) != ownership:
        files.set_ownership(path, ownership)
