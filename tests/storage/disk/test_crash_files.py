"""Tests of CrashFiles, which other tests rely on for crash safety: hand-counted states, and comparison with a real disk."""

import errno
from collections.abc import Callable
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.storage.disk.files import Files, SyncError
from ottla.storage.disk.os_files import OsFiles
from support.disk.crash_files import CrashFiles, PowerLoss, power_losses
from support.disk.crash_nodes import Directory, Inode, Node, digest_of, take, tree
from support.disk.crash_subsets import COMBINED_CHANGES_MAX, Versions, sets_of
from support.sizes import size

BOTH_MODELS = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])


def states(files: CrashFiles, *, ordered: bool = False, every_cut: bool = False) -> list[dict[str, bytes]]:
    return [each.snapshot() for each in files.after_crash(ordered=ordered, every_cut=every_cut)]


def disk(**contents: bytes) -> CrashFiles:
    files = CrashFiles()
    for name, content in contents.items():
        files.open(name, create=True).append(content)
    files.sync_all()
    return files


@BOTH_MODELS
def test_a_restart_finds_exactly_the_synced_data(ordered: bool) -> None:
    files = CrashFiles()
    files.make_dir("d")
    file = files.open("d/a", create=True)
    file.append(b"bytes")
    file.sync()
    files.sync_dir("d")
    files.sync_dir("/")
    assert states(files, ordered=ordered) == [{"/d/a": b"bytes"}]


@BOTH_MODELS
def test_a_created_file_may_lack_its_name(ordered: bool) -> None:
    files = CrashFiles()
    file = files.open("a", create=True)
    file.append(b"x")
    file.sync()
    assert states(files, ordered=ordered) == [{}, {"/a": b"x"}]


def test_a_file_is_lost_with_its_unsynced_directory() -> None:
    files = CrashFiles()
    files.make_dir("d")
    files.open("d/a", create=True)
    files.sync_dir("d")
    assert states(files) == [{}, {"/d/a": b""}]


def test_an_unsynced_tail_is_lost_kept_torn_or_zero() -> None:
    files = disk(a=b"12")
    files.open("a").append(b"345")
    found = {state["/a"] for state in states(files, every_cut=True)}
    assert {b"12", b"12345", b"123", b"1234", b"12\0\0\0"} == found


def test_a_long_tail_is_torn_at_three_places_by_default() -> None:
    files = disk(a=b"")
    files.open("a").append(b"x" * 100)
    found = {state["/a"] for state in states(files)}
    assert {b"", b"x", b"x" * 50, b"x" * 99, b"x" * 100, bytes(100)} == found


def test_writes_to_one_file_survive_in_their_order() -> None:
    files = disk(a=b"")
    file = files.open("a")
    file.append(b"1")
    file.append(b"2")
    assert {b"", b"\0", b"1", b"1\0", b"12"} == {state["/a"] for state in states(files)}


def test_a_later_sync_does_not_save_data_of_a_refused_sync() -> None:
    files = disk(a=b"1")
    file = files.open("a")
    file.append(b"2")

    def refuse(operation: str, path: str, added_bytes: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    files.refuse = refuse
    with pytest.raises(SyncError):
        file.sync()
    files.refuse = None
    with pytest.raises(SyncError):
        file.sync()
    files.open("a").sync()
    assert b"1" in {state["/a"] for state in states(files)}


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    files = disk(a=b"12345")
    file = files.open("a")
    file.truncate(2)
    assert {b"12345", b"12"} == {state["/a"] for state in states(files)}
    file.append(b"x")
    assert {b"12345", b"12", b"12\0", b"12x"} == {state["/a"] for state in states(files)}
    file.sync()
    assert {b"12x"} == {state["/a"] for state in states(files)}


def test_preallocated_space_is_zeros_only_after_a_crash() -> None:
    files = disk(a=b"")
    file = files.open("a")
    file.preallocate(4)
    file.append(b"x")
    assert file.size() == 1
    assert file.read_at(0, 9) == b"x"
    assert {b"", b"\0\0\0\0", b"x\0\0\0"} == {state["/a"] for state in states(files)}


def test_directory_operations_survive_in_order_or_in_any_subset() -> None:
    def rename_two() -> CrashFiles:
        files = disk(a=b"1", b=b"2")
        files.rename("a", "c")
        files.rename("b", "d")
        return files

    in_order = [{"/a": b"1", "/b": b"2"}, {"/c": b"1", "/b": b"2"}, {"/c": b"1", "/d": b"2"}]
    assert in_order == states(rename_two(), ordered=True)
    unordered = states(rename_two(), ordered=False)
    assert len(unordered) == 4
    assert {"/a": b"1", "/d": b"2"} in unordered


def test_syncing_one_directory_says_nothing_about_another() -> None:
    files = CrashFiles()
    files.make_dir("d")
    files.make_dir("e")
    files.sync_all()
    files.open("d/a", create=True)
    files.open("e/b", create=True)
    files.sync_dir("e")
    assert states(files) == [{"/e/b": b""}, {"/d/a": b"", "/e/b": b""}]


def test_a_replaced_file_is_old_or_new_and_never_missing() -> None:
    files = disk(a=b"old", b=b"new")
    files.rename("b", "a")
    assert states(files) == [{"/a": b"old", "/b": b"new"}, {"/a": b"new"}]


def test_a_created_and_renamed_file_without_sync_has_at_most_one_name() -> None:
    files = CrashFiles()
    files.open("a", create=True)
    files.rename("a", "b")
    found = states(files)
    assert sorted([{}, {"/a": b""}, {"/b": b""}], key=str) == sorted(found, key=str)


def test_a_removed_file_may_return_and_an_open_one_stays_readable() -> None:
    files = disk(a=b"x")
    file = files.open("a")
    files.remove("a")
    assert file.read_at(0, 1) == b"x"
    assert states(files) == [{"/a": b"x"}, {}]


def test_a_directory_is_removed_file_by_file() -> None:
    files = CrashFiles()
    files.make_dir("d/sub")
    files.open("d/a", create=True)
    files.open("d/sub/b", create=True)
    files.sync_all()
    left = [sorted(each.snapshot()) for each in power_losses(lambda f: f.remove_dir("d"), files, ordered=True)]
    assert sorted({tuple(x): x for x in left}.values(), key=len, reverse=True) == [
        ["/d/a", "/d/sub/b"],
        ["/d/sub/b"],
        [],
    ]


def test_a_renamed_directory_keeps_its_files() -> None:
    files = CrashFiles()
    files.make_dir("d")
    files.open("d/a", create=True)
    files.sync_all()
    files.rename("d", "e")
    assert states(files) == [{"/d/a": b""}, {"/e/a": b""}]


def test_a_hard_link_is_the_same_file_after_a_crash() -> None:
    files = disk(a=b"x")
    files.link("a", "b")
    (restarted,) = [each for each in files.after_crash(ordered=True) if each.exists("b")]
    restarted.open("a").append(b"y")
    assert restarted.snapshot() == {"/a": b"xy", "/b": b"xy"}


def test_power_fails_before_the_given_operation_and_stays_off() -> None:
    files = CrashFiles(fail_at=1)
    file = files.open("a", create=True)
    for _ in range(2):
        with pytest.raises(PowerLoss):
            file.append(b"x")
    with pytest.raises(PowerLoss):
        files.remove("a")
    file.close()
    assert files.operations == [("create", "a")]


def test_each_disk_of_a_power_loss_is_independent() -> None:
    files = disk(a=b"x")
    files.rename("a", "b")
    first, second = files.after_crash(ordered=True)
    first.remove("a")
    assert {"/b": b"x"} == second.snapshot() == files.snapshot()


def test_a_scenario_loses_power_before_each_operation_and_after_the_last() -> None:
    def scenario(files: CrashFiles) -> None:
        file = files.open("a", create=True)
        file.append(b"x")
        file.sync()
        files.sync_dir("/")

    found = [files.snapshot() for files in power_losses(scenario, ordered=True)]
    before_create: list[dict[str, bytes]] = [{}]
    before_append: list[dict[str, bytes]] = [{}, {"/a": b""}]
    before_sync: list[dict[str, bytes]] = [{}, {"/a": b""}, {"/a": b"\0"}, {"/a": b"x"}]
    before_sync_dir: list[dict[str, bytes]] = [{}, {"/a": b"x"}]
    at_end = [{"/a": b"x"}]
    assert before_create + before_append + before_sync + before_sync_dir + at_end == found


def test_an_excessive_number_of_subsets_is_refused() -> None:
    files = CrashFiles()
    for number in range(15):
        files.open(str(number), create=True)
    assert len(states(files, ordered=True)) == 16
    with pytest.raises(ValueError, match="too many subsets"):
        states(files, ordered=False)


def test_a_full_disk_refuses_an_append_completely() -> None:
    files = disk(a=b"12")
    files.free_bytes = 3
    file = files.open("a")
    with pytest.raises(OSError, match="no space"):
        file.append(b"3456")
    file.append(b"345")
    assert file.read_at(0, 99) == b"12345"


def test_an_operation_can_be_refused_by_its_kind() -> None:
    def refuse_syncs(operation: str, path: str, added_bytes: int) -> None:
        if operation == "sync":
            raise OSError(f"{path}: input/output error")

    files = disk(a=b"")
    files.refuse = refuse_syncs
    file = files.open("a")
    file.append(b"x")
    with pytest.raises(OSError, match="input/output"):
        file.sync()
    assert {b"", b"x", b"\0"} == {state["/a"] for state in states(files)}


def test_a_lock_is_held_until_its_release_or_a_restart() -> None:
    files = CrashFiles()
    lock = files.lock("lock")
    with pytest.raises(BlockingIOError):
        files.lock("lock")
    (without, restarted) = files.after_crash(ordered=True)
    assert not without.exists("lock")
    restarted.lock("lock").release()
    lock.release()
    files.lock("lock").release()


# The same random program on CrashFiles and on a real directory: same results, same errors, same files.


def actions(files: Files, root: str, name: str, other: str, number: int) -> dict[str, Callable[[], object]]:
    path = f"{root}/{name}"
    directory = f"{root}/{name.partition('/')[0]}" if "/" in name else root
    return {
        "create": lambda: files.open(path, create=True).size(),
        "open": lambda: files.open(path).size(),
        "empty": lambda: files.open(path, truncate=True).size(),
        "append": lambda: files.open(path).append(b"xyz"[:number]),
        "truncate": lambda: files.open(path).truncate(number),
        "preallocate": lambda: files.open(path).preallocate(number),
        "read": lambda: files.open(path).read_at(1, number),
        "read_into": lambda: files.open(path).read_into(1, memoryview(bytearray(number))),
        "rename": lambda: files.rename(path, path[:-1] + other[-1]),
        "remove": lambda: files.remove(path),
        "link": lambda: files.link(path, f"{root}/{other}"),
        "make_dir": lambda: files.make_dir(directory),
        "remove_dir": lambda: files.remove_dir(directory) if directory != root else None,
        "exists": lambda: (files.exists(path), files.is_dir(path), files.is_dir(directory)),
        "size": lambda: files.size(path),
        "sync": lambda: files.open(path).sync(),
        "sync_dir": lambda: files.sync_dir(directory),
        "list": lambda: files.list(directory),
        "set_mtime": lambda: files.set_mtime_ms(path, number * 1000),
        "mtime": lambda: files.mtime_ms(path) < 4000,
    }


def run(files: Files, root: str, action: str, name: str, other: str, number: int) -> object:
    try:
        return actions(files, root, name, other, number)[action]()
    except OSError as error:
        return type(error).__name__


ACTIONS = sorted(actions(CrashFiles(), "", "a", "a", 0))


NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "e/a"])


@settings(max_examples=size(30, 300))
@example([("set_mtime", "a", "a", 0), ("append", "a", "a", 0), ("mtime", "a", "a", 0)])
@example([("set_mtime", "a", "a", 0), ("empty", "a", "a", 0), ("mtime", "a", "a", 0)])
@example([("empty", "a", "a", 0), ("set_mtime", "a", "a", 0), ("empty", "a", "a", 0), ("mtime", "a", "a", 0)])
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), NAMES, NAMES, st.integers(0, 3)), max_size=30))
def test_a_program_behaves_the_same_on_this_disk_and_a_real_one(program: list[tuple[str, str, str, int]]) -> None:
    with TemporaryDirectory() as root:
        fake, real = CrashFiles(), OsFiles()
        fake.now_ms = 4000  # any time later than those of the program
        for files in (fake, real):
            files.make_dir(f"{root}/d")
            for name in ("a", "d/a"):
                files.open(f"{root}/{name}", create=True).append(b"1234")
        for action, name, other, number in program:
            arguments = (root, action, name, other, number)
            assert run(real, *arguments) == run(fake, *arguments), arguments
        for path, content in fake.snapshot().items():
            with open(path, "rb") as file:
                assert file.read() == content


# A search skips known disks and combines disks from parts; compared with a walk over all of every disk at every moment.


class _Names(dict[Directory, dict[str, Node]]):
    """The names on the disk, by directory."""

    def __missing__(self, directory: Directory) -> dict[str, Node]:
        self[directory] = dict(directory.durable)
        return self[directory]


def all_digests(files: CrashFiles) -> set[int]:
    """Return the digests of all disks that a power loss may leave now, with directory operations in any order."""
    steps, found = files._steps, set()
    versions = Versions(every_cut=False, combined=len(steps) <= COMBINED_CHANGES_MAX)
    for kept in sets_of(len(steps), False, files.changes_max, files.lost_at_most):
        names = _Names()
        for number, step in enumerate(steps):
            if kept >> number & 1:
                take(step, names.__getitem__)
        there = list(tree(files._root, names))
        varying = tuple((path, node) for path, node in there if isinstance(node, Inode) and node.changes)
        for _, (chosen, others) in versions.of(varying):
            contents = chosen | others
            found.add(
                digest_of(
                    (path, contents.get(node, node.durable) if isinstance(node, Inode) else None)
                    for path, node in there
                )
            )
    return found


CHANGING = [
    "append",
    "append",
    "create",
    "empty",
    "link",
    "make_dir",
    "remove",
    "remove_dir",
    "rename",
    "sync",
    "sync_dir",
]


@settings(max_examples=size(25, 100))
# A search with few sets of many operations misses disks that one with all sets of fewer operations finds.
@example([*(("create", name, name, 1) for name in ("a", "b", "d/b", "e/a")), ("sync_dir", "e/a", "e/a", 1)], 3, 1)
@given(
    st.lists(st.tuples(st.sampled_from(CHANGING), NAMES, NAMES, st.integers(1, 3)), max_size=14),
    st.sampled_from([3, 8]),
    st.integers(1, 3),
)
def test_a_search_through_a_program_finds_each_disk_of_each_moment(
    program: list[tuple[str, str, str, int]], changes_max: int, parts: int
) -> None:
    files = CrashFiles()
    for directory in ("d", "e"):
        files.make_dir(directory)
    files.open("d/a", create=True).append(b"12")
    files.sync_all()
    files.changes_max, files.lost_at_most = changes_max, 1
    wanted, seen, known = set[int](), set[int](), set[int]()

    def look() -> None:
        wanted.update(all_digests(files))
        seen.update(each.digest() for each in files.after_crash(ordered=False, seen=known))

    files.before_step = look
    for action, name, other, number in program:
        run(files, "", action, name, other, number)
    files.before_step = None
    look()
    assert seen == known == wanted
    dealt = [each.digest() for part in range(parts) for each in files.after_crash(ordered=False, part=(part, parts))]
    assert sorted(dealt) == sorted(all_digests(files))
