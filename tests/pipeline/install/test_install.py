"""Installing staged groups without a server and a JVM: the result, the refusals, and every way to be killed during it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

from ottla.pipeline.compaction.group_results import check_finished_group
from ottla.pipeline.compaction.local import compact_locally
from ottla.pipeline.compaction.staging import group_directory, originals_directory, save_plan
from ottla.pipeline.errors import PipelineError, SourceChangedError, StoreLockedError, UsageError
from ottla.pipeline.install.install import InstallResult, install, locked
from ottla.pipeline.install.install_steps import (
    GroupProgress,
    discard,
    group_state,
    is_overtaken,
    is_stale,
    pending_groups,
)
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint, write_partition_metadata
from ottla.storage.disk.files import Ownership
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.topics.catalog import Catalog
from support.disk import crash_files
from support.disk.crash_files import CrashFiles
from support.lives.compacted_life import DATA_DIR, TP, Broker, check
from support.lives.crash_lives import SECOND_MS
from support.logs.make_log import DAY_MS
from support.pipeline.install_lives import INSTALLS, Staged, search, staged
from support.sizes import size, some


@pytest.fixture(scope="module")
def life() -> Staged:
    return staged()


def run(life: Staged, files: CrashFiles, **options: Any) -> InstallResult:
    return install(life.plan, files, now_ms=SECOND_MS, **options)


def checkpoint_of(files: CrashFiles) -> int | None:
    return OffsetCheckpoint(files, f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}").read().get(TP)


# Results


def test_the_staged_files_are_the_logs_and_the_log_means_the_same(life: Staged) -> None:
    files = life.copy()
    staged_files = {
        f"{life.plan.directory}/{path.rpartition('/')[2]}": data
        for path, data in files.snapshot().items()
        if path.startswith(life.plan.staging + "/0") and "manifest" not in path
    }
    assert run(life, files) == InstallResult((0, 1), ())
    there = life.segments(files)
    assert there == staged_files
    assert checkpoint_of(files) == life.plan.upper_offset
    check(Broker(files, life.config, SECOND_MS), life.owed, life.history)


def test_a_repeated_install_changes_nothing(life: Staged) -> None:
    files = life.copy()
    run(life, files)
    before = files.snapshot()
    assert run(life, files) == InstallResult((), ())
    assert files.snapshot() == before


def test_compacting_again_after_an_install_does_nothing(life: Staged) -> None:
    files = life.copy()
    run(life, files)
    before = files.snapshot()
    results = compact_locally(life.plan, source_files=files, files=files)
    assert [result.group for result in results] == [0, 1]
    assert files.snapshot() == before


def test_groups_can_be_installed_in_parts(life: Staged) -> None:
    """The checkpoint comes with the last part, and a server may serve in between."""
    files = life.copy()
    before = checkpoint_of(files)
    assert run(life, files, max_groups=0) == InstallResult((), (0, 1))
    assert run(life, files, max_groups=1) == InstallResult((0,), (1,))
    assert [group_state(life.plan, group, files) for group in (0, 1)] == [GroupProgress.INSTALLED, GroupProgress.STAGED]
    assert checkpoint_of(files) == before
    between = files.copy()
    check(Broker(between, life.config, SECOND_MS), life.owed, life.history)
    assert run(life, files, max_groups=1).is_complete
    assert checkpoint_of(files) == life.plan.upper_offset


def test_later_parts_need_not_be_staged(life: Staged) -> None:
    files = life.copy()
    files.remove_dir(group_directory(life.plan, 1))
    with pytest.raises(UsageError, match=r"groups \[1\] of 2 are not staged"):
        run(life, files)
    assert run(life, files, max_groups=1) == InstallResult((0,), (1,))


@pytest.mark.parametrize("make", INSTALLS.values(), ids=INSTALLS)
def test_originals_are_kept_until_the_plan_is_forgotten(make: Callable[[], Staged]) -> None:
    life = make()
    files = life.copy()
    before = life.segments(files)
    run(life, files)
    kept = originals_directory(life.plan)
    originals = {
        path.replace(kept, life.plan.directory): data
        for path, data in files.snapshot().items()
        if path.startswith(kept) and not path.endswith(paths.SNAPSHOT)
    }
    assert originals == before
    assert check_finished_group(life.plan, 0, files) is not None
    discard(life.plan, files)
    assert not files.is_dir(life.plan.staging)
    check(Broker(files, life.config, SECOND_MS), life.owed, life.history)


def test_originals_need_not_be_kept(life: Staged) -> None:
    files = life.copy()
    run(life, files, keep_originals=False)
    assert not files.is_dir(originals_directory(life.plan))


def test_a_checkpoint_never_decreases(life: Staged) -> None:
    files = life.copy()
    OffsetCheckpoint(files, f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}").write({TP: 10**6})
    run(life, files)
    assert checkpoint_of(files) == 10**6


SERVERS = Ownership(71, 72, 0o640)


def owned_by_server(life: Staged) -> CrashFiles:
    files = life.copy()
    for path in life.segments(files):
        files.set_ownership(path, SERVERS)
    return files


@pytest.mark.parametrize("steps", [None, 1])
def test_installed_files_belong_to_the_owner_of_the_replaced_ones(life: Staged, steps: int | None) -> None:
    files = owned_by_server(life)
    while not run(life, files, max_groups=steps).is_complete:
        pass
    installed = life.segments(files)
    assert installed
    assert {files.ownership(path) for path in installed} == {SERVERS}


def test_additional_files_in_the_servers_directory_belong_to_its_owner(tmp_path: Path) -> None:
    """These are checkpoint and lock file. Only root can test the owner, any user can test the mode."""
    os.chmod(tmp_path, 0o770)
    files = OsFiles()
    with locked(files, str(tmp_path)):
        pass
    assert files.ownership(str(tmp_path / paths.LOCK_FILE)).mode == 0o660
    if os.geteuid() == 0:
        path = str(tmp_path / "file")
        files.open(path, create=True).close()
        files.set_ownership(path, SERVERS)
        assert files.ownership(path) == SERVERS


def test_nothing_changes_if_owners_cannot_be_set(life: Staged) -> None:
    files = owned_by_server(life)
    before = life.segments(files)

    def refuse(operation: str, path: str, _added_bytes: int) -> None:
        if operation == "set_ownership":
            raise PermissionError(errno.EPERM, "Operation not permitted", path)

    files.refuse = refuse
    with pytest.raises(UsageError, match=r"expected owner 71, group 72 and mode 640 .*, found 0, 0 and 644"):
        run(life, files)
    assert life.segments(files) == before
    assert not files.exists(originals_directory(life.plan))


class AnotherUsersFiles(OsFiles):
    """Files of a group's directory, for a user who may not change the owner."""

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)


def test_an_unreadable_lock_file_is_not_left_to_the_server(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o770)
    for _ in range(2):
        with (
            pytest.raises(UsageError, match="install as that owner"),
            locked(AnotherUsersFiles(), str(tmp_path)),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


# Refusals

FIRST, SECOND, LAST = (0, 2, 12)
"""Base offsets: the first group's first two, and the second group's."""


def append_to(base: int, data: bytes = b"\0") -> Callable[[Staged, CrashFiles], None]:
    return lambda life, files: files.open(paths.log_path(life.plan.directory, base)).append(data)


def overwrite(base: int, at: int) -> Callable[[Staged, CrashFiles], None]:
    """Return a change of one header byte, which keeps the size."""

    def damage(life: Staged, files: CrashFiles) -> None:
        file = files.open(paths.log_path(life.plan.directory, base))
        data = bytearray(file.read_at(0, file.size()))
        data[at] ^= 1
        file.truncate(0)
        file.append(data)

    return damage


def remove_log(life: Staged, files: CrashFiles) -> None:
    files.remove(paths.log_path(life.plan.directory, LAST))


def set_policy(life: Staged, files: CrashFiles) -> None:
    catalog = Catalog.load(files, DATA_DIR)
    assert catalog is not None
    catalog.set_topic_configs({TP.topic: {"cleanup.policy": "delete"}})


def damage_stage(name: str) -> Callable[[Staged, CrashFiles], None]:
    def damage(life: Staged, files: CrashFiles) -> None:
        files.open(f"{group_directory(life.plan, 0)}/{name}").append(b"\0")

    return damage


REFUSED: dict[str, tuple[Callable[[Staged, CrashFiles], None], type[PipelineError], str]] = {
    "a source grew": (append_to(FIRST), SourceChangedError, r"0{19}0\.log: expected 70 bytes as planned, found 71"),
    "a later source grew": (append_to(LAST), SourceChangedError, r"12\.log: expected 736 bytes"),
    "a batch has another CRC": (overwrite(SECOND, 17), SourceChangedError, r"2\.log: expected batch headers of CRC"),
    "a source is gone": (remove_log, SourceChangedError, r"12\.log: expected a segment of plan .*, found no file"),
    "the log is gone": (
        lambda life, files: files.remove_dir(life.plan.directory),
        SourceChangedError,
        "expected the log of plan",
    ),
    "the topic is not compacted": (set_policy, SourceChangedError, "t: expected cleanup.policy compact as planned"),
    "a staged log is damaged": (damage_stage(f"{0:020}.log"), UsageError, r"\.log: expected .* run compact again"),
    "a staged index is damaged": (damage_stage(f"{0:020}.index"), UsageError, r"\.index: expected .* run compact"),
    "a manifest is damaged": (damage_stage("manifest.json"), UsageError, "invalid manifest"),
    "nothing is staged": (
        lambda life, files: files.remove_dir(group_directory(life.plan, 0)),
        UsageError,
        "groups .* are not staged",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_differ_from_the_plan_are_refused_and_nothing_changes(life: Staged, name: str) -> None:
    spoil, kind, words = REFUSED[name]
    files = life.copy()
    spoil(life, files)
    before = files.snapshot()
    with pytest.raises(kind, match=words):
        run(life, files)
    after = files.snapshot()
    assert {path: data for path, data in after.items() if not path.endswith(paths.LOCK_FILE)} == {
        path: data for path, data in before.items() if not path.endswith(paths.LOCK_FILE)
    }


def other_disk(operation: str, path: str, _added_bytes: int) -> None:
    """Refuse links, as between file systems when the data directory is a mount point."""
    if operation == "link":
        raise OSError(errno.EXDEV, "Invalid cross-device link", path)


@pytest.mark.parametrize("keep_originals", [True, False])
def test_a_staging_on_another_disk_is_refused_and_nothing_changes(life: Staged, keep_originals: bool) -> None:
    files = life.copy()
    before = life.segments(files)
    files.refuse = other_disk
    with pytest.raises(UsageError, match=r"d\.ottla-pipeline: expected the file system of /d/t-0, found another one"):
        run(life, files, keep_originals=keep_originals)
    assert life.segments(files) == before


def test_no_plan_is_made_if_it_could_not_be_installed(life: Staged) -> None:
    files = life.copy()
    discard(life.plan, files)
    files.remove_dir(paths.staging_root(DATA_DIR))
    before = files.snapshot()
    files.refuse = other_disk
    with pytest.raises(UsageError, match="a data directory that is itself a mount point"):
        save_plan(files, life.plan)
    assert files.snapshot() == before
    assert not files.exists(paths.staging_root(DATA_DIR))
    files.refuse = None
    save_plan(files, life.plan)
    assert files.list(paths.staging_root(DATA_DIR)) == [life.plan.plan_id]
    assert files.list(life.plan.staging) == ["plan.json"]


def test_a_directory_that_a_server_holds_is_left_alone(life: Staged) -> None:
    files = life.copy()
    lock = files.lock(paths.join(DATA_DIR, paths.LOCK_FILE))
    with pytest.raises(StoreLockedError, match=r"held by .*: stop that server, or install through it") as raised:
        run(life, files)
    assert raised.value.exit_code == 2
    lock.release()
    assert run(life, files).is_complete


def test_a_recreated_topic_gets_no_checkpoint_of_the_old_one(life: Staged) -> None:
    """All groups are installed, and the process died before the checkpoint; then the topic was deleted and created again."""
    files = life.copy()
    checkpoint = f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}"

    def refuse(operation: str, path: str, _added_bytes: int) -> None:
        if path.startswith(checkpoint):
            raise OSError(errno.EIO, "refused", path)

    files.refuse = refuse
    with pytest.raises(OSError, match="refused"):
        run(life, files)
    files.refuse = None
    assert not pending_groups(life.plan, files)
    before = checkpoint_of(files)
    files.remove_dir(life.plan.directory)
    files.make_dir(life.plan.directory)
    write_partition_metadata(files, life.plan.directory, bytes(range(2, 18)))
    with pytest.raises(SourceChangedError, match=r"expected topic .* of plan .*, found 0203040506"):
        run(life, files)
    assert checkpoint_of(files) == before
    assert is_overtaken(life.plan, files)


@pytest.mark.parametrize("retention_ms", [1_000, 3 * DAY_MS])
def test_a_plan_with_expired_delete_horizons_is_refused(life: Staged, retention_ms: int) -> None:
    """The next pass would remove the tombstones, and a client that has just read the deleted values would never see them."""
    config = {**life.plan.config, "delete_retention_ms": retention_ms}
    over_ms = life.plan.now_ms + max(retention_ms, DAY_MS)
    plan = replace(life.plan, config=config)
    assert not is_stale(plan, over_ms - 1) and is_stale(plan, over_ms)
    files = life.copy()
    late_ms = life.plan.now_ms + DAY_MS
    with pytest.raises(SourceChangedError, match=r"found 86400000 ms: .* run compact again"):
        install(life.plan, files, now_ms=late_ms)
    assert life.segments(files) == life.segments(life.copy())
    assert install(life.plan, files, now_ms=late_ms - 1).is_complete


def test_already_installed_groups_are_recorded_in_the_checkpoint_by_a_later_run(life: Staged) -> None:
    files = life.copy()

    def refuse(operation: str, path: str, _added_bytes: int) -> None:
        if path.startswith(f"{DATA_DIR}/{paths.CLEANER_CHECKPOINT}"):
            raise OSError(errno.EIO, "refused", path)

    files.refuse = refuse
    with pytest.raises(OSError, match="refused"):
        run(life, files)
    files.refuse = None
    assert install(life.plan, files, now_ms=life.plan.now_ms + 9 * DAY_MS).is_complete
    assert checkpoint_of(files) == life.plan.upper_offset


def test_changes_by_the_servers_cleaner_are_kept(life: Staged) -> None:
    files = life.copy()
    run(life, files, max_groups=1)
    broker = Broker(files, replace(life.config, segment_bytes=1 << 20), SECOND_MS)
    broker.clean()
    broker.manager.close(SECOND_MS)
    with pytest.raises(SourceChangedError) as raised:
        run(life, files)
    assert raised.value.exit_code == 4
    check(Broker(files.copy(), life.config, SECOND_MS), life.owed, life.history)


def test_identical_work_of_the_servers_cleaner_counts_as_installed(life: Staged) -> None:
    files, undisturbed = life.copy(), life.copy()
    run(life, undisturbed)
    broker = Broker(files, life.config, SECOND_MS)
    broker.clean()
    broker.manager.close(SECOND_MS)
    assert run(life, files).is_complete
    assert life.segments(files) == life.segments(undisturbed)


def test_a_disk_that_refuses_any_operation_loses_nothing(life: Staged) -> None:
    """The disk refuses each operation once; a second call on a healthy disk continues."""
    undisturbed = life.copy()
    run(life, undisturbed)
    count = len(undisturbed.operations)
    for number in range(count):
        files = life.copy()

        def refuse(
            operation: str, path: str, added_bytes: int, files: CrashFiles = files, number: int = number
        ) -> None:
            if len(files.operations) == number:
                raise OSError(5, f"{operation} refused", path)

        files.refuse = refuse
        with pytest.raises(OSError, match="refused"):
            run(life, files)
        files.refuse = None
        assert run(life, files).is_complete
        assert life.segments(files) == life.segments(undisturbed)
    assert count > 80


# Losses of power


WAYS = {
    "offline, then a server starts": ("offline", True),
    "offline, then again": ("offline", False),
    "through a server, then again": ("online", False),
}


@pytest.mark.parametrize(("name", "way"), some(product(INSTALLS, WAYS), 5))
def test_power_may_fail_before_any_operation(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test looks at a part of the disks; all of them, and losses in recovery, are in compat/installs."""
    monkeypatch.setattr(crash_files, "CHANGES_MAX", 6)
    how, with_server = WAYS[way]
    counts = search(INSTALLS[name](), how=how, with_server=with_server, losses=1, thinned_to=size(60, 12))
    assert counts.after_one_loss > size(4, 20)
    assert not counts.failures


def test_the_next_start_accepts_installed_files() -> None:
    """The marker of the clean stop had other files."""
    life = staged()
    files = life.copy()
    run(life, files)
    notes: list[str] = []
    manager = LogManager(files, [DATA_DIR], note=notes.append)
    manager.load(SECOND_MS, SECOND_MS, config_for=lambda _: life.config)
    assert manager.was_clean and not notes
