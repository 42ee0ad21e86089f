"""Safe opening of files and making of directories, where another user of the machine may have made the path first.

This module is the only one that does it. The rules, which docs/security.md has for users ("we" is the broker's user):

    a symbolic link      is refused where a file or a directory of ours is expected
    a file               belongs to us, to root, or to the owner of its directory; or to the directory's group, if that
                         group may write and others may not (Kubernetes' fsGroup)
    others may write     refused, unless others may write to the directory also
    a data directory     belongs to us or root; or the directory above it does, and others may not write there; or it is a
                         mount point, as only root mounts. Others may write to it if it is a mount point (Kubernetes'
                         emptyDir has 0777). A subvolume of Btrfs is not a mount point: any user can make one
    a link to one        belongs to us or root, as does each link that it leads to. Links among the directories above are
                         not checked

A new file or directory gets the permissions of its directory, without the write bit of others, and less the process's umask.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from .files import UnusableError

_ROOT = 0
OTHERS_MAY_WRITE = stat.S_IWOTH
_OF_A_DIRECTORY = 0o075
_OF_A_FILE = 0o064
"""Permission bits that group and others get if the directory above has them."""

MOUNTS = "/proc/self/mountinfo"
"""List of mounts, one per line, with the directory in the fifth field; only on Linux (proc_pid_mountinfo(5))."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")

_LINKS_MAX = 40
"""Largest number of symbolic links in a chain, as in Linux (path_resolution(7))."""
_NO_MODES = "if chmod has no effect (a Windows drive in WSL), use a directory in your home directory"

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


def open_file(
    path: str,
    flags: int = os.O_RDWR,
    *,
    create: bool = False,
    truncate: bool = False,
    mode: int | None = None,
) -> int:
    """Open a file of the broker; returns the descriptor. Follows no link, and refuses an untrusted file before it is changed.

    Args:
        flags: Flags of `os.open` for reading and writing.
        create: Make the file if it is missing.
        truncate: Drop the bytes of an existing file.
        mode: Permission bits of a new file; None: those of its directory.

    Raises:
        UnusableError: The rules of this module forbid it.
        OSError: The system refused.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if not flags & os.O_RDWR:
        flags |= os.O_NONBLOCK  # opening a FIFO for one direction waits for the other end
    while True:
        try:
            descriptor = os.open(path, flags)
            break
        except FileNotFoundError:
            if not create:
                raise
            try:
                return os.open(path, flags | os.O_CREAT | os.O_EXCL, _mode_in(path) if mode is None else mode)
            except FileExistsError:
                continue  # another thread or process has made it; if it is a link, ELOOP follows
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise linked(path) from None
            raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _untrusted(path, "is not a regular file", "move it elsewhere")
        if not _is_plainly_ours(found):
            _check_entry(path, found)
        if truncate:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_secrets(path: str) -> tuple[str, str]:
    """Read a file of passwords that the user has named. Links are followed, as Kubernetes mounts secrets by links.

    Returns:
        (The text, of UTF-8 with or without a byte order mark; a warning in one line, "" if only the owner can use the file.)

    Raises:
        UnicodeDecodeError, OSError
    """
    with open(path, encoding="utf-8-sig") as file:
        found = os.fstat(file.fileno())
        text = file.read()
    verbs = [verb for verb, bit in (("read", stat.S_IROTH), ("change", OTHERS_MAY_WRITE)) if found.st_mode & bit]
    if stat.S_ISCHR(found.st_mode):  # a terminal
        return text, ""
    if not _is_trusted(found):
        return text, f"{path}: uid {found.st_uid} can change the secrets in this file; chown {os.geteuid()} {path}"
    if not verbs:
        return text, ""
    remedy = f"chmod o-{'r' * ('read' in verbs)}{'w' * ('change' in verbs)} {path}"
    return text, f"{path}: all users of this machine can {' and '.join(verbs)} the secrets in this file; {remedy}"


def make_file(path: str, mode: int = PRIVATE_FILE) -> int:
    """Make a new file for writing; returns the descriptor. FileExistsError: a file, directory or link has this name."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def make_directory(path: str, mode: int | None = None) -> None:
    """Make a directory and its missing parents. An existing one is allowed.

    Args:
        mode: Permission bits of all that are made; None: those of the directory above.
    """
    try:
        os.mkdir(path, _mode_in(path, of_a_file=False) if mode is None else mode)
    except FileNotFoundError:
        above = os.path.dirname(path.rstrip("/"))
        if above in ("", path) or os.path.isdir(above):  # no directory can be made there, as in /proc
            raise
        make_directory(above, mode)
        make_directory(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def _mode_in(path: str, *, of_a_file: bool = True) -> int:
    above = os.stat(_above(path)).st_mode
    return PRIVATE_FILE | above & _OF_A_FILE if of_a_file else PRIVATE_DIRECTORY | above & _OF_A_DIRECTORY


def check_data_dir(path: str) -> None:
    """Refuse a data directory that another user may have made; a missing one is allowed.

    The path may be a chain of links, each of which belongs to the broker's user or root.

    Raises:
        UnusableError, OSError
    """
    found = _seen(path)
    links = 0
    while found is not None and stat.S_ISLNK(found.st_mode):
        if not _is_trusted(found):
            raise _untrusted(path, f"is a symbolic link of uid {found.st_uid}", "use the directory that it leads to")
        links += 1
        if links > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        path = os.path.join(_above(path), os.readlink(path))
        found = _seen(path)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode) or _is_plainly_ours(found) or is_mounted(path):
        return
    if found.st_mode & OTHERS_MAY_WRITE:
        raise _written_by_all(path, found, f"chmod o-w {path}")
    # The text of `.` and `..` does not contain the directory above.
    if not _is_plainly_ours(os.stat(_above(os.path.realpath(path)))):
        raise _untrusted(
            path,
            f"belongs to uid {found.st_uid}, but the broker runs as uid {os.geteuid()}",
            "use a directory of that user, or run the broker as its owner",
        )


def is_mounted(path: str) -> bool:
    """Whether a file system is mounted at a directory; if the system has no list of mounts, the result of `os.path.ismount`.

    That function only compares devices, and a subvolume of Btrfs, which any user can make, has its own device number.
    """
    if not os.path.ismount(path):
        return False
    try:
        with open(MOUNTS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    wanted = os.fsencode(os.path.realpath(path))
    return any(_ESCAPED.sub(_byte, line.split(b" ")[4]) == wanted for line in lines)


def _byte(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def check_entry(path: str) -> None:
    """Refuse an untrusted entry of a data directory or of a partition's directory; a missing one is allowed.

    Raises:
        UnusableError, OSError
    """
    found = _seen(path)
    if found is None:
        return
    if stat.S_ISLNK(found.st_mode):
        raise linked(path)
    if not _is_plainly_ours(found):
        _check_entry(path, found)


def _check_entry(path: str, found: os.stat_result) -> None:
    above = os.stat(_above(path))
    others = above.st_mode & OTHERS_MAY_WRITE
    if found.st_mode & OTHERS_MAY_WRITE and not others:
        raise _written_by_all(path, found, f"chmod -R o-w {_above(path)}")
    is_of_group = found.st_gid == above.st_gid and above.st_mode & stat.S_IWGRP and not others
    if not (_is_trusted(found) or found.st_uid == above.st_uid or is_of_group):
        raise _untrusted(
            path,
            f"belongs to uid {found.st_uid}, but the broker runs as uid {os.geteuid()}",
            f"move it elsewhere, or chown {os.geteuid()} it if it is yours",
        )


def _seen(path: str) -> os.stat_result | None:
    """Return the status of a path, without following a link; None if it is missing."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _untrusted(path: str, problem: str, remedy: str) -> UnusableError:
    return UnusableError(errno.EPERM, f"{problem}; {remedy}", path)


def _written_by_all(path: str, found: os.stat_result, remedy: str) -> UnusableError:
    return _untrusted(
        path,
        f"all users of this machine can write to it (mode {stat.S_IMODE(found.st_mode):04o})",
        f"{remedy}, or {_NO_MODES}",
    )


def linked(path: str) -> UnusableError:
    """Return the error for a symbolic link."""
    return _untrusted(
        path, "is a symbolic link, which is not followed", "replace the link by its target, or mount the target there"
    )


def _above(path: str) -> str:
    return os.path.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in (_ROOT, os.geteuid())


def _is_plainly_ours(found: os.stat_result) -> bool:
    return _is_trusted(found) and not found.st_mode & OTHERS_MAY_WRITE
