"""OsFiles on a real directory. Its common behaviour with CrashFiles is tested in test_crash_files.py."""

import errno
import fcntl
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.storage.disk import os_files
from ottla.storage.disk.files import FileSlice, SyncError, WouldWaitError
from ottla.storage.disk.os_files import OsFile, OsFiles, sync_by
from ottla.storage.segment.index import TransactionIndex
from support.between_lines import between_lines
from support.disk.crash_files import CrashFiles

FILES = OsFiles()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"{tmp_path}/file"


FILE_SIZE_LIMIT = 1000


@contextmanager
def files_that_cannot_grow() -> Iterator[None]:
    """Make the kernel refuse to let any file grow beyond FILE_SIZE_LIMIT, as on a full disk.

    For single calls only: the limit is the whole process's, and the tests' own output may go to a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_appends_are_consecutive_and_survive_reopening(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"one")
    file.append(bytearray(b"two"))
    file.append(memoryview(b"three"))
    assert file.size() == 11
    again = FILES.open(path)
    again.append(b"!")
    assert again.read_at(0, 100) == b"onetwothree!"


def test_a_file_whose_sync_failed_is_never_reported_durable(path: str) -> None:
    """Linux reports lost writes once, and reports success from then on."""
    reading, writing = os.pipe()  # a pipe cannot be synced
    os.close(reading)
    file = OsFile(writing)
    with pytest.raises(SyncError, match="Invalid argument"):
        file.sync()
    real = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(real, writing)
    os.fsync(writing)
    os.close(real)
    with pytest.raises(SyncError, match="an earlier sync failed"):
        file.sync()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a directory that cannot be synced")
def test_a_directory_that_cannot_be_synced_is_an_error() -> None:
    with pytest.raises(SyncError):
        FILES.sync_dir("/proc/self")


@pytest.mark.parametrize("of", [0, 1], ids=["file", "directory"])
def test_without_full_sync_support_an_ordinary_sync_is_used(path: str, tmp_path: Path, of: int) -> None:
    sync = sync_by(12_345)[of]  # not a command of Linux or macOS
    descriptor = os.open(tmp_path if of else path, os.O_RDONLY | (0 if of else os.O_CREAT))
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync(descriptor)


def test_with_full_sync_support_no_other_sync_is_called(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, sync_directory = sync_by(fcntl.F_GETFD)  # any existing command
    file = FILES.open(path, create=True)
    for name in ("fsync", "fdatasync"):
        monkeypatch.delattr(os, name, raising=False)
    sync(file.fileno())
    sync_directory(file.fileno())


def test_an_append_is_one_system_call(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The produce path pays for each call; `compat/bench` relies on this."""
    file = FILES.open(path, create=True)
    calls = []
    for name in ("pwrite", "pread", "write", "fstat", "ftruncate", "fsync", "fdatasync"):
        real = getattr(os, name)

        def counted(*arguments: object, name: str = name, real: object = real) -> object:
            calls.append(name)
            return real(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    file.append(b"x" * 100_000)
    assert calls == ["pwrite"]


def test_an_append_that_does_not_fit_leaves_the_file_unchanged(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"x" * (FILE_SIZE_LIMIT - 10))
    with files_that_cannot_grow(), pytest.raises(OSError) as refusal:
        file.append(b"y" * 11)  # ten bytes are written before the kernel refuses
    assert refusal.value.errno == errno.EFBIG
    assert file.size() == FILE_SIZE_LIMIT - 10
    assert os.stat(path).st_size == FILE_SIZE_LIMIT - 10
    file.append(b"z" * 10)
    assert file.read_at(FILE_SIZE_LIMIT - 11, 100) == b"x" + b"z" * 10


def test_an_append_whose_repair_fails_is_overwritten_by_the_next(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FILES.open(path, create=True)
    file.append(b"x" * (FILE_SIZE_LIMIT - 10))

    def broken(descriptor: int, size_bytes: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch, files_that_cannot_grow(), pytest.raises(OSError):
        patch.setattr(os, "ftruncate", broken)
        file.append(b"y" * 11)
    assert file.size() == FILE_SIZE_LIMIT - 10
    assert file.read_at(FILE_SIZE_LIMIT - 10, 10) == b""
    file.append(b"z")
    assert file.read_at(FILE_SIZE_LIMIT - 10, 10) == b"z"


def test_concurrent_threads_see_a_large_append_completely_or_not_at_all(path: str) -> None:
    file = OsFiles().open(path, create=True)
    file.append(b"before")
    ahead = file.write_ahead(memoryview(b"head and all the rest"), 4)
    ahead.write()
    seen = []
    between_lines(lambda: file.append_ahead(ahead, b"head"), lambda: seen.append(file.read_at(0, 99)))
    assert list(dict.fromkeys(seen)) == [b"before", b"beforehead and all the rest"]


def test_a_partial_write_is_completed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux writes at most 2 GiB in one call, and a signal may cut a large write short."""
    file = FILES.open(path, create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, memoryview(data)[:3], at))
    file.append(b"0123456789")
    assert file.read_at(0, 100) == b"0123456789"


@pytest.mark.parametrize(
    ("position", "size_bytes", "expected"),
    [
        (0, 10, b"0123456789"),
        (0, 11, b"0123456789"),
        (3, 4, b"3456"),
        (9, 1, b"9"),
        (9, 2, b"9"),
        (10, 1, b""),
        (99, 1, b""),
        (5, 0, b""),
    ],
)
def test_a_read_is_short_only_at_the_end(path: str, position: int, size_bytes: int, expected: bytes) -> None:
    file = FILES.open(path, create=True)
    file.append(b"0123456789")
    assert file.read_at(position, size_bytes) == expected
    buffer = bytearray(size_bytes)
    assert file.read_into(position, memoryview(buffer)) == len(expected)
    assert buffer == expected + bytes(size_bytes - len(expected))


def test_a_read_shortened_by_the_kernel_is_continued(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FILES.open(path, create=True)
    file.append(b"0123456789")
    monkeypatch.setattr(os_files, "READ_CHUNK_BYTES", 3)
    assert file.read_at(1, 8) == b"12345678"
    buffer = bytearray(8)
    assert (file.read_into(1, memoryview(buffer)), bytes(buffer)) == (8, b"12345678")


def test_a_file_shortened_by_another_program_reads_short_and_ends(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"0123456789")
    os.truncate(path, 4)
    assert file.read_at(0, 10) == b"0123"
    assert file.read_into(0, memoryview(bytearray(10))) == 4


def test_preallocated_space_is_reserved_on_disk_but_is_not_content(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"abc")
    file.preallocate(4096)
    assert os.stat(path).st_size == 4096
    assert file.size() == 3
    assert file.read_at(0, 100) == b"abc"
    file.append(b"def")
    file.truncate(file.size())
    assert os.stat(path).st_size == 6
    file.preallocate(2)
    assert file.read_at(0, 100) == b"abcdef"


def test_a_slice_reads_its_part_and_keeps_a_removed_file_alive(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"0123456789")
    piece = FileSlice(file, 2, 5)
    del file
    FILES.remove(path)
    assert len(piece) == 5
    assert piece.read() == b"23456"


def test_a_slice_of_a_shortened_file_is_an_error() -> None:
    files = CrashFiles()
    file = files.open("a", create=True)
    file.append(b"0123456789")
    piece = FileSlice(file, 2, 5)
    file.truncate(4)
    with pytest.raises(OSError, match="read 2 of 5 bytes at position 2"):
        piece.read()


def test_a_dropped_file_frees_its_descriptor_without_a_warning(path: str) -> None:
    file = FILES.open(path, create=True)
    descriptor = file.fileno()
    del file
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_closed_file_refuses_every_operation_and_may_be_closed_twice(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"abc")
    file.close()
    file.close()
    for use in (lambda: file.append(b"x"), lambda: file.read_at(0, 1), file.sync, file.fileno):
        with pytest.raises(OSError):
            use()


def test_a_missing_file_is_created_only_on_request(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(path)
    FILES.open(path, create=True).append(b"abc")
    assert FILES.open(path, create=True).size() == 3
    assert FILES.open(path, truncate=True).size() == 0


@pytest.mark.parametrize("ask", [FILES.exists, FILES.is_dir, FILES.is_file, FILES.make_dir])
def test_a_failed_lookup_is_not_a_missing_file(ask: Callable[[str], object], path: str) -> None:
    os.symlink(path, path)  # an endless chain
    with pytest.raises(OSError):
        ask(f"{path}/name")


def test_an_index_whose_lookup_fails_is_not_taken_for_empty(path: str) -> None:
    os.symlink(path, path)
    index = TransactionIndex(FILES, path, 0)
    for _ in range(2):
        with pytest.raises(OSError):
            index.collect_aborted(0, 1)


def test_missing_paths_do_not_exist(path: str) -> None:
    FILES.open(path, create=True).close()
    os.symlink(f"{path}-gone", f"{path}-link")
    for missing in (f"{path}-gone", f"{path}-link", f"{path}/below-a-file"):
        assert not (FILES.exists(missing) or FILES.is_dir(missing) or FILES.is_file(missing))


def test_modification_times_are_in_milliseconds(path: str) -> None:
    FILES.open(path, create=True)
    FILES.set_mtime_ms(path, 1_700_000_000_123)
    assert FILES.mtime_ms(path) == 1_700_000_000_123


def test_free_space_is_at_most_the_volumes_size(tmp_path: Path) -> None:
    total, free = FILES.disk_total_and_free(str(tmp_path))
    assert 0 < free <= total


# The lock


def test_a_second_lock_in_this_process_is_refused_under_any_file_name(tmp_path: Path) -> None:
    lock = FILES.lock(f"{tmp_path}/.lock")
    (tmp_path / "alias").symlink_to(tmp_path)
    for name in (f"{tmp_path}/.lock", f"{tmp_path}/./.lock", f"{tmp_path}/alias/.lock"):
        with pytest.raises(BlockingIOError, match="this process"):
            FILES.lock(name)
    lock.release()
    lock.release()
    FILES.lock(f"{tmp_path}/.lock").release()


LOCK_ELSEWHERE = """
import sys
from ottla.storage.disk.os_files import OsFiles
try:
    lock = OsFiles().lock(sys.argv[1])
except BlockingIOError as error:
    print(error)
"""


def test_another_process_is_refused_even_after_a_refusal_in_this_one(tmp_path: Path) -> None:
    """A process loses a POSIX lock when it closes any descriptor of the file, so a refusal must not open the file."""
    path = f"{tmp_path}/.lock"
    lock = FILES.lock(path)
    with pytest.raises(BlockingIOError):
        FILES.lock(path)
    arguments = [sys.executable, "-c", LOCK_ELSEWHERE, path]
    while_held = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert while_held.stdout.startswith(f"{path} is held by another process")
    if sys.platform == "linux":
        name = Path("/proc/self/comm").read_text().strip()
        assert while_held.stdout == f"{path} is held by another process (PID {os.getpid()}, {name})\n"
    lock.release()
    once_released = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert once_released.stdout == ""


HOLD = "import sys; from ottla.storage.disk.os_files import OsFiles; held = OsFiles().lock(sys.argv[1]); print(1, flush=True); input()"


NAMED = "open('/proc/self/comm', 'w').write('\\x1b[2J\\u202ea\\nb c');"


@pytest.mark.skipif(sys.platform != "linux", reason="names of processes are asked of Linux")
def test_the_name_of_a_lock_holder_is_printable(tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    arguments = [sys.executable, "-c", NAMED + HOLD, path]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "1\n"
        with pytest.raises(BlockingIOError) as refused:
            FILES.lock(path)
        holder.communicate("\n", timeout=60)
    assert str(refused.value) == rf"{path} is held by another process (PID {holder.pid}, \x1b[2J\u202ea\nb c)"


def test_a_lock_holder_is_named_without_its_arguments(tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    arguments = [sys.executable, "-c", HOLD, path, "--user", "alice:s3cr3t"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "1\n"
        with pytest.raises(BlockingIOError) as refused:
            FILES.lock(path)
        holder.communicate("\n", timeout=60)
    assert "s3cr3t" not in str(refused.value) and "alice" not in str(refused.value)
    if sys.platform == "linux":
        assert f"(PID {holder.pid}, " in str(refused.value)


def test_a_lock_file_that_cannot_be_created_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.lock(f"{tmp_path}/missing/.lock")
    (tmp_path / "missing").mkdir()
    FILES.lock(f"{tmp_path}/missing/.lock").release()


# The page cache

PAGES_BYTES = 1 << 20
LET_GO_TRIES = 20


def let_go(file: OsFile) -> None:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_no_memory(path: str) -> OsFile:
    """Return a file of one megabyte that the page cache does not hold."""
    file = FILES.open(path, create=True)
    file.append(os.urandom(PAGES_BYTES))
    file.sync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
    let_go(file)
    if file.cached_bytes(0, PAGES_BYTES):
        pytest.skip("this file system keeps its pages, or does not tell of them")
    return file


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells")
def test_evicted_pages_are_not_waited_for_until_they_are_loaded(path: str) -> None:
    file = in_no_memory(path)
    for _ in range(LET_GO_TRIES):  # Linux keeps the pages that another processor has just queued
        let_go(file)
        try:
            file.read_now(500_000, 100)
        except WouldWaitError as cold:
            cold.bring()
            break
    else:
        pytest.fail("what is not in memory was read")
    assert file.read_now(500_000, 100) == file.read_at(500_000, 100)

    file.read_ahead(0, PAGES_BYTES)
    assert file.cached_bytes(0, PAGES_BYTES) == PAGES_BYTES
    assert file.read_now(0, PAGES_BYTES + 5) == file.read_at(0, PAGES_BYTES)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells")
def test_data_in_memory_is_reported_up_to_the_first_gap(path: str) -> None:
    file = in_no_memory(path)
    file.read_at(0, PAGES_BYTES // 2)
    assert PAGES_BYTES // 4 <= file.cached_bytes(0, PAGES_BYTES) <= PAGES_BYTES * 3 // 4
    file.read_at(PAGES_BYTES - 1, 1)
    assert file.cached_bytes(0, PAGES_BYTES) <= PAGES_BYTES * 3 // 4


def test_a_range_after_the_end_is_treated_as_the_end(path: str) -> None:
    file = FILES.open(path, create=True)
    file.append(b"abc")
    assert bytes(file.read_now(1, 100)) == b"bc"
    assert bytes(file.read_now(3, 1)) == b""
    file.read_ahead(1, 100)


def test_without_system_support_recent_writes_count_as_in_memory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_files, "_NOWAIT", 0)  # as on macOS
    FILES.open(path, create=True).append(b"found")
    file = FILES.open(path)
    file.append(b"written")
    assert file.cached_bytes(0, 12) == file.cached_bytes(4, 2) == 0
    assert file.cached_bytes(5, 7) == 7
    assert file.read_now(0, 12) == b"foundwritten"


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells")
def test_an_unsupported_query_of_a_file_system_is_made_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os_files, "_NOWAIT", 1 << 20
    )  # not a flag of any system: refused as on a file system without support
    FILES.open(path, create=True).append(b"found")
    file = FILES.open(path)
    assert file.cached_bytes(0, 5) == 0
    assert file.read_now(0, 5) == b"found"
