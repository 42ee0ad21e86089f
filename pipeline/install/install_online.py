"""Installation of a compaction's staged segments in a running server, which does the swaps itself.

    pause      a lease, renewed while this runs, keeps the server's own cleaner off; appends and reads continue
    check      as offline: the segments of all groups that are not in the log yet are those that were planned
    for each group: the lease is checked, originals are linked, the server installs on request, the group is marked
    resume     with the offset up to which the log is clean now; also after an error, without that offset

The server's admin listener must be open (`ottla serve --admin PORT`). The server is on this machine, as data and staging are.
"""

from __future__ import annotations

import os
from typing import Any

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.logs.staged_segment import MANIFEST_FILE, size_and_crc
from ..compaction.plan import CompactionPlan
from ..compaction.staging import group_directory
from ..compaction.survey import Surveying, survey_segments
from ..errors import UsageError
from .admin_client import AdminClient
from .install import InstallResult, OnGroup
from .install_steps import (
    GroupProgress,
    check_age,
    choose,
    give_to_server,
    is_plan_installed,
    link_originals,
    mark_installed,
    mark_plan_installed,
    pending_groups,
    present_sources,
    to_swap,
)

LEASE_MS = 60_000
"""Time after a driver's death until the server's cleaner, or another install, can continue."""


def install_online(
    plan: CompactionPlan,
    admin: str,
    files: Files,
    *,
    now_ms: int,
    max_groups: int | None = None,
    lease_ms: int = LEASE_MS,
    on_group: OnGroup = lambda _: None,
    survey: Surveying = survey_segments,
) -> InstallResult:
    """Install the staged groups of a plan in the log of a running server. Another call continues an interrupted one.

    Args:
        admin: HOST:PORT of the server's admin listener.
        lease_ms: Time after this process's death until the server's own cleaner continues.
        survey: Reads the headers of the segments to replace, in less than the lease.

    Raises:
        StoreLockedError: Another install holds the lease.
        SourceChangedError: A segment is not the planned one, the topic is no longer compacted, or the plan is
            stale. Groups that were already installed stay.
        UsageError: No server answers, or it serves another directory; a group is not staged, or damaged, or cannot be
            given to the owner of the log.
        PipelineError: The server has failed or stopped. Call again.
        OSError: The disk of the staging directory failed.
    """
    if is_plan_installed(plan, files):
        return InstallResult((), ())
    calls = AdminClient(admin)
    tp = {"topic": plan.topic, "partition": plan.partition}
    data_dir = str(calls.get("status", tp).get("data_dir"))
    if os.path.realpath(data_dir) != os.path.realpath(plan.data_dir):
        raise UsageError(f"{admin}: expected the server of {plan.data_dir}, found that of {data_dir}")
    with calls.paused(tp, lease_ms) as held:
        pending = pending_groups(plan, files)
        chosen = choose(pending, max_groups, plan, files, survey)
        check_age(plan, to_swap(chosen), now_ms)
        give_to_server(plan, to_swap(chosen), files)
        for group, state in chosen.items():
            calls.post("pause", held | {"lease_ms": lease_ms})
            link_originals(plan, group, state, files)
            if state is not GroupProgress.IN_PLACE:
                calls.post("install", held | _group(plan, group, present_sources(plan, group, files), files))
            mark_installed(plan, group, files, now_ms)
            on_group(group)
        left = tuple(group for group in pending if group not in chosen)
        calls.post("resume", held if left else held | {"clean_up_to": plan.upper_offset})
    if not left:
        mark_plan_installed(plan, files, now_ms)
    return InstallResult(tuple(chosen), left)


def _group(plan: CompactionPlan, group: int, present: list[int], files: Files) -> dict[str, Any]:
    directory = group_directory(plan, group)
    bases = [plan.sources[number].base_offset for number in present]
    return {
        "sources": [[base_offset, files.size(paths.log_path(plan.directory, base_offset))] for base_offset in bases],
        "staged": directory,
        "manifest_crc": size_and_crc(files, paths.join(directory, MANIFEST_FILE))[1],
    }
