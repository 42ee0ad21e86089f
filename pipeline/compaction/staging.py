"""The directory beside a data directory where plans and their results lie until they are installed.

    /data                                   the data directory
    /data.ottla-pipeline/<plan id>/         beside it, never inside: Apache Kafka refuses to start on a strange folder
        plan.json
        00000000000000000000/               a finished group, see `rewrite`; with a file `installed` once it is in the log
        originals/                          hard links to the files that groups have replaced, see `install`

Everything here lies on the data directory's file system, so that installing makes hard links and copies nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from ...storage.disk import paths
from ...storage.disk.checkpoints import read_text
from ...storage.disk.files import Files
from ...storage.disk.own_files import OTHERS_MAY_WRITE
from ...storage.disk.paths import TopicPartition
from ..errors import SourceChangedError, UsageError
from .plan import CompactionPlan
from .survey import Surveying, survey_segments

PLAN_FILE = "plan.json"
INSTALLED_FILE = "installed"
ORIGINALS = "originals"


def save_plan(files: Files, plan: CompactionPlan) -> None:
    """Put the plan into its staging directory, on disk on return.

    Raises:
        UsageError: What lies beside the data directory is on another file system. Nothing is left.
        FileExistsError: It is there.
        OSError: The disk refused.
    """
    root = paths.staging_root(plan.data_dir)
    _check_links(files, plan)
    files.make_dir(plan.staging)
    path = paths.join(plan.staging, PLAN_FILE)
    file = files.open(path + paths.TEMPORARY, create=True, truncate=True)
    try:
        file.append(plan.to_json().encode())
        file.sync()
    finally:
        file.close()
    try:
        files.link(path + paths.TEMPORARY, path)  # of two that come at once, one fails here
    finally:
        files.remove(path + paths.TEMPORARY)
    for directory in (plan.staging, root, paths.parent(root)):
        files.sync_dir(directory)


def _check_links(files: Files, plan: CompactionPlan) -> None:
    """Try what installing will do: only that finds the mount points within one file system, too."""
    root = paths.staging_root(plan.data_dir)
    probe = paths.join(root, f"{plan.plan_id}{paths.TEMPORARY}")
    is_new = not files.exists(root)
    files.make_dir(root, mode=files.ownership(plan.data_dir).mode & ~OTHERS_MAY_WRITE)
    for source in plan.sources[:1]:
        try:
            files.link(paths.log_path(plan.directory, source.base_offset), probe)
        except OSError as error:  # any other one is for whoever installs, who may be another user
            if error.errno == errno.EXDEV:
                if is_new:
                    files.remove_dir(root)
                raise other_file_system(plan) from error
        finally:
            files.remove(probe)


def other_file_system(plan: CompactionPlan) -> UsageError:
    """The refusal of a data directory that installing cannot make hard links into."""
    return UsageError(
        f"{paths.staging_root(plan.data_dir)}: expected the file system of {plan.directory}, found another one: a data"
        " directory that is itself a mount point, or a link to another disk, cannot be compacted; one below it can"
    )


def load_plan(files: Files, staging: str) -> CompactionPlan:
    """The plan in a staging directory.

    Raises:
        UsageError: There is none, or it is not what its name says.
    """
    path = paths.join(staging, PLAN_FILE)
    if not files.exists(path):
        raise UsageError(f"{path}: no plan is there")
    try:
        plan = CompactionPlan.from_json(read_text(files, path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}; without {staging} a new plan is made") from error
    if plan.plan_id != staging.rpartition("/")[2]:
        raise UsageError(f"{path}: expected the plan {staging.rpartition('/')[2]}, found {plan.plan_id}")
    return plan


def pending_plans(files: Files, data_dir: str, tp: TopicPartition | None = None) -> list[CompactionPlan]:
    """The plans that lie beside a data directory, for one log or all, the oldest clock first.

    Raises:
        UsageError: One cannot be read, or is of another directory: this one was moved or copied together with its plans.
    """
    root = paths.staging_root(data_dir)
    if not files.is_dir(root):
        return []
    directories = [paths.join(root, name) for name in files.list(root)]
    with_plan = [each for each in directories if files.exists(paths.join(each, PLAN_FILE))]
    plans = [load_plan(files, each) for each in with_plan]
    for plan, directory in zip(plans, with_plan, strict=True):
        if plan.data_dir != data_dir:
            raise UsageError(
                f"{directory}: expected a plan of {data_dir}, found one of {plan.data_dir}; without {directory} a new"
                " plan is made"
            )
    return sorted(
        (plan for plan in plans if tp in (None, plan.topic_partition)), key=lambda plan: (plan.now_ms, plan.plan_id)
    )


def group_directory(plan: CompactionPlan, group: int) -> str:
    """Where a finished group lies."""
    return paths.join(plan.staging, f"{plan.group_base(group):020}")


def originals_directory(plan: CompactionPlan) -> str:
    """Where the replaced segments are, under the names that they had."""
    return paths.join(plan.staging, ORIGINALS)


def is_installed(files: Files, plan: CompactionPlan, group: int) -> bool:
    """Whether a group is known to be in the log. It may be there and not be marked yet, after a crash."""
    return files.exists(paths.join(group_directory(plan, group), INSTALLED_FILE))


def check_sources(
    files: Files, plan: CompactionPlan, numbers: Iterable[int] | None = None, survey: Surveying = survey_segments
) -> None:
    """See that the segments (all, or those of these numbers) are what the plan was made for.

    Args:
        survey: Reads all their headers.

    Raises:
        SourceChangedError: One is gone or another.
        CorruptSourceError: One cannot be read.
    """
    sources = plan.sources if numbers is None else [plan.sources[number] for number in numbers]
    for source in sources:
        path = paths.log_path(plan.directory, source.base_offset)
        if not files.exists(path):
            raise SourceChangedError(f"{path}: expected a segment of plan {plan.plan_id}, found no file")
        if (size_bytes := files.size(path)) != source.size_bytes:
            raise SourceChangedError(f"{path}: expected {source.size_bytes} bytes as planned, found {size_bytes}")
    surveys = survey(files, plan.directory, [source.base_offset for source in sources]) if sources else ()
    for source, (crc, *_) in zip(sources, surveys, strict=True):
        if crc != source.headers_crc:
            path = paths.log_path(plan.directory, source.base_offset)
            raise SourceChangedError(f"{path}: expected batch headers of CRC {source.headers_crc:#x}, found {crc:#x}")
