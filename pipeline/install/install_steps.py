"""Steps of an install that read the log and write only next to it: progress of groups, originals, marks.

    <staging>/originals/                            hard links to the files that groups have replaced
    <staging>/00000000000000000310/installed        the group is in the log; its staged names are deleted
    <staging>/installed                             all groups are, and the cleaner's checkpoint includes them

`install` and `install_online` run them in the same order. They differ in the process that does the swap.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum

from ...storage.disk import paths
from ...storage.disk.checkpoints import write_atomically
from ...storage.disk.files import DamagedFileError, Files
from ...storage.logs.staged_segment import StagedSegment, read_staged, size_and_crc
from ..compaction.plan import CompactionPlan
from ..compaction.staging import (
    INSTALLED_FILE,
    PLAN_FILE,
    check_sources,
    group_directory,
    is_installed,
    originals_directory,
    other_file_system,
)
from ..compaction.survey import Surveying, survey_segments
from ..errors import SourceChangedError, UsageError
from ..stores.segment_names import topic_id_in

STALE_MS_MIN = 86_400_000


class GroupProgress(Enum):
    """Progress of a group. The value is for people."""

    NOT_STAGED = "not staged"
    STAGED = "staged"
    HALF = "in the log, or equal to its first source, beside others that it replaces"
    IN_PLACE = "in the log, and not marked yet"
    INSTALLED = "installed"


def pending_groups(plan: CompactionPlan, files: Files) -> list[int]:
    """Return the groups that are not marked as installed, in order; none if the plan is installed."""
    if is_plan_installed(plan, files):
        return []
    return [group for group in range(len(plan.groups)) if not is_installed(files, plan, group)]


def is_plan_installed(plan: CompactionPlan, files: Files) -> bool:
    """Return whether the plan needs no more work."""
    return files.exists(paths.join(plan.staging, INSTALLED_FILE))


def is_begun(plan: CompactionPlan, files: Files) -> bool:
    """Return whether an install has begun to change the log, or was about to."""
    return files.is_dir(originals_directory(plan)) or any(
        is_installed(files, plan, group) for group in range(len(plan.groups))
    )


def is_overtaken(plan: CompactionPlan, files: Files, survey: Surveying = survey_segments) -> bool:
    """Return whether segments that the rest of a plan would replace have changed, so that it can never be installed."""
    names = [paths.parse_segment_name(name) for name in files.list(plan.directory)]
    if any(name is not None and name.suffix for name in names):
        return False  # an unfinished swap: the next install finishes it first, then the segments are known
    try:
        choose(pending_groups(plan, files), 0, plan, files, survey)
    except SourceChangedError:
        return True
    return False


def is_stale(plan: CompactionPlan, now_ms: int) -> bool:
    """Return whether the rest of a plan must not be installed any more, as its tombstones' delete horizons have passed.

    The next pass would remove these tombstones at once. A slow reader that has read the values that the install replaces
    would never see that they were deleted. The limit is `delete.retention.ms`, but at least a day, as a compaction may take
    that long.
    """
    return now_ms - plan.now_ms >= max(plan.log_config.delete_retention_ms, STALE_MS_MIN)


def check_age(plan: CompactionPlan, groups: Collection[int], now_ms: int) -> None:
    """Check that the plan may still be installed.

    Raises:
        SourceChangedError: Some groups must still be swapped in, and the plan is stale.
    """
    if groups and is_stale(plan, now_ms):
        raise SourceChangedError(
            f"plan {plan.plan_id}: expected one made less than {max(plan.log_config.delete_retention_ms, STALE_MS_MIN)} ms"
            f" ago, found {now_ms - plan.now_ms} ms: its tombstones could be removed before all consumers have seen them; run compact again"
        )


def mark_plan_installed(plan: CompactionPlan, files: Files, now_ms: int) -> None:
    """Record that all groups are in the log, and the cleaner's checkpoint includes them."""
    write_atomically(files, paths.join(plan.staging, INSTALLED_FILE), _mark(now_ms))


def choose(
    pending: Sequence[int],
    max_groups: int | None,
    plan: CompactionPlan,
    files: Files,
    survey: Surveying = survey_segments,
) -> dict[int, GroupProgress]:
    """Return the groups for one call, the first of the pending ones, with their progress.

    The segments of all pending groups, chosen or not, must be those that were planned: records there supersede values that a
    chosen group leaves out. The topic must be the planned one even without a pending group, as the cleaner's checkpoint
    remains to be written.

    Raises:
        SourceChangedError, CorruptSourceError: They are not.
        UsageError: A chosen group is not staged.
    """
    there = topic_id_in(files, plan.directory)
    if plan.topic_id is not None and there != bytes.fromhex(plan.topic_id):
        found = "another" if there is None else there.hex()
        raise SourceChangedError(
            f"{plan.directory}: expected topic {plan.topic_id} of plan {plan.plan_id}, found {found}"
        )
    states = {group: group_state(plan, group, files) for group in pending}
    chosen = {group: states[group] for group in pending[:max_groups]}
    if missing := [group for group, state in chosen.items() if state is GroupProgress.NOT_STAGED]:
        raise UsageError(f"groups {missing[:10]} of {len(plan.groups)} are not staged: run compact first")
    check_sources(files, plan, _unchanged(plan, files, states), survey)
    return chosen


def group_state(plan: CompactionPlan, group: int, files: Files) -> GroupProgress:
    """Return the progress of a group, in a directory without a half-done swap.

    Reads the new segment if it seems to be in place.

    Raises:
        UsageError: Its manifest is invalid.
    """
    if is_installed(files, plan, group):
        return GroupProgress.INSTALLED
    if not files.is_dir(group_directory(plan, group)):
        return GroupProgress.NOT_STAGED
    staged = _read(plan, group, files)
    log_name = paths.segment_file_name(staged.base_offset, paths.LOG)
    if not _is_same(paths.join(plan.directory, log_name), staged.log_size_and_crc, files):
        return GroupProgress.STAGED
    is_alone = present_sources(plan, group, files) == [plan.groups[group][0]]
    is_whole = all(_is_same(paths.join(plan.directory, name), said, files) for name, said in staged.files.items())
    return GroupProgress.IN_PLACE if is_alone and is_whole else GroupProgress.HALF


def present_sources(plan: CompactionPlan, group: int, files: Files) -> list[int]:
    """Return the numbers of a group's sources that have a segment in the log."""
    return [
        number
        for number in plan.groups[group]
        if files.exists(paths.log_path(plan.directory, plan.sources[number].base_offset))
    ]


def checked_stage(plan: CompactionPlan, group: int, files: Files, *, is_read: bool = True) -> StagedSegment:
    """Return the staged segment of a group, after a check that reads every byte if `is_read`.

    Raises:
        UsageError: It is damaged.
    """
    staged = _read(plan, group, files)
    try:
        staged.check(files, is_read=is_read)
    except DamagedFileError as error:
        raise UsageError(f"{error}: run compact again") from error
    return staged


def to_swap(chosen: Mapping[int, GroupProgress]) -> list[int]:
    """Return the groups whose staged files are not in the log yet."""
    return [group for group, state in chosen.items() if state is not GroupProgress.IN_PLACE]


def give_to_server(plan: CompactionPlan, groups: Iterable[int], files: Files) -> None:
    """Give the staged files of these groups the owner, group and mode of the segments that they replace; on disk on return.

    They become part of the log by hard links: the users that could open the old files must be able to open the new ones.

    Raises:
        UsageError: This process may not do that. The log is unchanged.
    """
    for group in groups:
        staged = _read(plan, group, files)
        first = plan.sources[present_sources(plan, group, files)[0]].base_offset
        wanted = files.ownership(paths.log_path(plan.directory, first))
        for name in staged.files:
            path = paths.join(staged.directory, name)
            if not files.exists(path) or (there := files.ownership(path)) == wanted:
                continue
            try:
                files.set_ownership(path, wanted)
            except PermissionError as error:
                raise UsageError(
                    f"{path}: expected owner {wanted.user_id}, group {wanted.group_id} and mode {wanted.mode:o} of the"
                    f" segment that it replaces, found {there.user_id}, {there.group_id} and {there.mode:o}, which this"
                    " process may not change: install as that owner, or as root"
                ) from error


def link_originals(plan: CompactionPlan, group: int, state: GroupProgress, files: Files) -> None:
    """Make hard links to all files of a group's sources in the staging directory; on disk on return. It may be called again.

    A segment that was already swapped in is not an original any more, unless compaction has changed nothing in it.
    """
    numbers, first = present_sources(plan, group, files), plan.groups[group][0]
    if state in (GroupProgress.HALF, GroupProgress.IN_PLACE) and not _is_unchanged(plan, first, files):
        numbers.remove(first)
    directory = originals_directory(plan)
    files.make_dir(directory)
    for number in numbers:
        base_offset = plan.sources[number].base_offset
        for kind in (*paths.SEGMENT_KINDS, paths.SNAPSHOT):
            name = paths.segment_file_name(base_offset, kind)
            with (
                suppress(FileNotFoundError, FileExistsError),
                on_one_file_system(plan),
            ):  # no such file; linked before a crash
                files.link(paths.join(plan.directory, name), paths.join(directory, name))
    files.sync_dir(directory)
    files.sync_dir(plan.staging)


@contextmanager
def on_one_file_system(plan: CompactionPlan) -> Iterator[None]:
    """Convert errors of hard links between a plan's staging and its log.

    Raises:
        UsageError: Instead of an OSError EXDEV.
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise other_file_system(plan) from error


def _is_unchanged(plan: CompactionPlan, number: int, files: Files) -> bool:
    try:
        check_sources(files, plan, [number])
    except SourceChangedError:
        return False
    return True


def discard(plan: CompactionPlan, files: Files) -> None:
    """Forget a plan, installed or abandoned: delete everything that is staged, and the originals."""
    files.remove(paths.join(plan.staging, PLAN_FILE))  # first: without it, files that a crash leaves are not a plan
    files.sync_dir(plan.staging)
    files.remove_dir(plan.staging)


def mark_installed(plan: CompactionPlan, group: int, files: Files, now_ms: int) -> None:
    """Record that a group is in the log, and delete the staged names, whose files now belong to the log."""
    write_atomically(files, paths.join(group_directory(plan, group), INSTALLED_FILE), _mark(now_ms))
    _read(plan, group, files).remove_files(files)


def _unchanged(plan: CompactionPlan, files: Files, states: Mapping[int, GroupProgress]) -> list[int]:
    """Return the sources that must still be as they were planned, in order."""
    found: list[int] = []
    for group, state in states.items():
        if state is GroupProgress.HALF:
            found += [number for number in present_sources(plan, group, files) if number != plan.groups[group][0]]
        elif state is not GroupProgress.IN_PLACE:
            found += plan.groups[group]
    return found


def _read(plan: CompactionPlan, group: int, files: Files) -> StagedSegment:
    bases = tuple(plan.sources[number].base_offset for number in plan.groups[group])
    try:
        staged = read_staged(files, group_directory(plan, group))
    except DamagedFileError as error:
        raise UsageError(f"{error}: run compact again") from error
    if staged.source_base_offsets != bases:
        found = list(staged.source_base_offsets)
        raise UsageError(f"{staged.directory}: expected the segments {list(bases)} of the plan, found {found}")
    return staged


def _is_same(path: str, size_and_crc_said: tuple[int, int], files: Files) -> bool:
    return (
        files.exists(path)
        and files.size(path) == size_and_crc_said[0]
        and size_and_crc(files, path) == size_and_crc_said
    )


def _mark(now_ms: int) -> str:
    return f'{{"at_ms": {now_ms}}}\n'
