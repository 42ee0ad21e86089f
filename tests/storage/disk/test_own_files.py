"""Files of other users of the machine where Ottla expects its own: every kind of file, and which of them it uses."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from ottla.storage.disk import own_files
from ottla.storage.disk.files import UnusableError
from ottla.storage.disk.own_files import (
    check_data_dir,
    check_entry,
    is_mounted,
    make_directory,
    make_file,
    open_file,
    read_secrets,
)

US, STRANGER, OTHER_STRANGER, OUR_GROUP, THEIR_GROUP = 1001, 1002, 1003, 2001, 2002


@pytest.fixture
def as_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the rules for user 1001, while root changes the owners of files."""
    if os.geteuid() != 0:
        pytest.skip("root alone can give files to other users")
    monkeypatch.setattr(os, "geteuid", lambda: US)


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def give(path: Path, owner: int, mode: int, group: int = THEIR_GROUP) -> None:
    os.chown(path, owner, group)
    os.chmod(path, mode)


def refusal(check: object, path: Path | str) -> str:
    try:
        check(str(path))  # type: ignore[operator]
    except UnusableError as error:
        return str(error)
    return ""


@pytest.mark.usefixtures("as_us")
def test_a_data_directory_needs_a_trusted_owner_and_no_foreign_writers(
    tmp_path: Path,
) -> None:
    above, directory = tmp_path / "above", tmp_path / "above" / "data"
    directory.mkdir(parents=True)
    for owner, mode, owner_above, mode_above in product(
        (US, 0, STRANGER),
        (0o700, 0o755, 0o775, 0o707),
        (US, 0, OTHER_STRANGER, STRANGER),
        (0o755, 0o2775, 0o777, 0o1777),
    ):
        give(above, owner_above, mode_above)
        give(directory, owner, mode)
        others_may_write = bool(mode & 0o002)
        is_put_there = owner_above in (US, 0) and not mode_above & 0o002
        is_used = not others_may_write and (owner in (US, 0) or is_put_there)
        told = refusal(check_data_dir, directory)
        assert (told == "") == is_used, (owner, oct(mode), owner_above, oct(mode_above), told)
        if told:
            assert told.startswith(f"{directory}: ") and "\n" not in told
            assert (
                ("chmod o-w" in told and "chmod has no effect (a Windows drive in WSL)" in told)
                if others_may_write
                else (f"uid {owner}" in told and "run the broker as its owner" in told)
            )


MOUNT = b"36 35 98:0 / %b rw,noatime master:1 - ext4 /dev/root rw\n"


def listed(path: Path) -> bytes:
    """Return a line of the list of mounts, with the escapes of Linux."""
    escaped = b"".join(b"\\%03o" % each if each in b" \t\n\\" else bytes([each]) for each in os.fsencode(path))
    return MOUNT % escaped


@pytest.mark.usefixtures("as_us")
@pytest.mark.parametrize("name", ["data", "a b\tc\nd\\040e", "\udcff"])
def test_a_mount_point_may_have_any_owner_but_a_subvolume_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Kubernetes' emptyDir is root's with 0777; a directory of a container's host has its owner there.

    A subvolume of Btrfs has a device of its own, as a mount point has, and any user creates one.
    """
    directory, mounts = tmp_path / name, tmp_path / "mountinfo"
    directory.mkdir()
    give(tmp_path, 0, 0o1777)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(directory))
    monkeypatch.setattr(own_files, "MOUNTS", str(mounts), raising=False)
    others = MOUNT % b"/" + listed(tmp_path) + listed(directory / "below")
    for table, is_mount in ((others + listed(directory), True), (others, False)):
        mounts.write_bytes(table)
        for owner, mode in ((0, 0o777), (STRANGER, 0o755), (STRANGER, 0o777), (STRANGER, 0o700)):
            give(directory, owner, mode)
            assert (refusal(check_data_dir, directory) == "") == is_mount, (owner, oct(mode))
    mounts.unlink()  # a different operating system
    assert refusal(check_data_dir, directory) == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="a file of Linux")
def test_paths_listed_by_linux_are_mount_points(tmp_path: Path) -> None:
    assert is_mounted("/proc") and is_mounted("/proc/") and is_mounted("/")
    assert not is_mounted(str(tmp_path)) and not is_mounted("/proc/self") and not is_mounted("/missing")


@pytest.mark.usefixtures("as_us")
def test_a_link_to_a_data_directory_is_ours_or_roots(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(0o700)
    for owner in (US, 0, STRANGER):
        for owner_of_target in (US, 0, STRANGER):
            give(target, owner_of_target, 0o700)
            give(tmp_path, 0, 0o1777)
            link = tmp_path / f"link-{owner}-{owner_of_target}"
            link.symlink_to(target)
            os.chown(link, owner, owner, follow_symlinks=False)
            is_used = owner != STRANGER and owner_of_target != STRANGER
            assert (refusal(check_data_dir, link) == "") == is_used
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert refusal(check_data_dir, tmp_path / "dangling") == ""
    assert refusal(check_data_dir, tmp_path / "missing") == ""


@pytest.mark.usefixtures("as_us")
def test_each_link_to_a_data_directory_belongs_to_us_or_root(tmp_path: Path) -> None:
    target, others = tmp_path / "target", tmp_path / "others"
    target.mkdir(0o700)
    others.mkdir()
    give(others, STRANGER, 0o755)
    links = [tmp_path / "first", others / "second", tmp_path / "third"]
    for link, to in zip(links, ("others/second", "../third", str(target)), strict=True):
        link.symlink_to(to)
    for owners in product((US, 0, STRANGER), repeat=3):
        for link, owner in zip(links, owners, strict=True):
            os.chown(link, owner, owner, follow_symlinks=False)
        told = refusal(check_data_dir, links[0])
        assert (told == "") == (STRANGER not in owners), owners
        if told:
            assert os.path.normpath(told.partition(":")[0]) == str(links[owners.index(STRANGER)])
    for link in links:
        os.chown(link, US, US, follow_symlinks=False)
    target.rmdir()
    assert refusal(check_data_dir, links[0]) == ""
    links[0].rename(target)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        check_data_dir(str(target))


@pytest.mark.usefixtures("as_us")
@pytest.mark.parametrize("above_is_ours", [True, False])
def test_the_parent_directory_is_the_same_for_any_notation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above_is_ours: bool
) -> None:
    above = tmp_path / "above"
    directory = above / "data"
    inside = directory / "inside"
    inside.mkdir(parents=True)
    give(above, US if above_is_ours else STRANGER, 0o755)
    give(directory, STRANGER, 0o755)
    give(inside, US, 0o755)
    link = tmp_path / "link"
    link.symlink_to("above/data/inside/..")
    os.chown(link, US, US, follow_symlinks=False)
    found = dict[str, str]()
    for where, names in (
        (directory, [".", f"{directory}/.", f"{directory}/", str(directory)]),
        (inside, ["..", str(link)]),
    ):
        monkeypatch.chdir(where)
        found |= {name: refusal(check_data_dir, name) for name in names}
    assert {name: told == "" for name, told in found.items()} == dict.fromkeys(found, above_is_ours)


@pytest.mark.usefixtures("as_us")
@pytest.mark.parametrize("is_directory", [True, False])
def test_an_entrys_owner_must_be_allowed_to_write_in_its_directory(tmp_path: Path, is_directory: bool) -> None:
    directory, entry = tmp_path / "d", tmp_path / "d" / "entry"
    directory.mkdir()
    entry.mkdir() if is_directory else entry.touch()
    for owner, group, mode, owner_above, mode_above in product(
        (US, 0, STRANGER, OTHER_STRANGER),
        (OUR_GROUP, THEIR_GROUP),
        (0o700, 0o775, 0o777),
        (US, 0, STRANGER),
        (0o700, 0o755, 0o2775, 0o777, 0o2777),
    ):
        give(directory, owner_above, mode_above, OUR_GROUP)
        give(entry, owner, mode, group)
        others = bool(mode_above & 0o002)
        of_group = group == OUR_GROUP and bool(mode_above & 0o020) and not others
        is_used = (owner in (US, 0, owner_above) or of_group) and (others or not mode & 0o002)
        where = (owner, group, oct(mode), owner_above, oct(mode_above))
        assert (refusal(check_entry, entry) == "") == is_used, where
        if not is_directory:
            entry.write_bytes(b"what it had")
            assert (refusal(lambda path: os.close(open_file(path, truncate=True)), entry) == "") == is_used, where
            assert entry.read_bytes() == (b"" if is_used else b"what it had")


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY])
def test_links_are_not_followed_and_only_regular_files_opened(
    tmp_path: Path, create: bool, truncate: bool, flags: int
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "made-by-nobody")
    os.mkfifo(tmp_path / "fifo")
    free = lowest_free_descriptor()
    for name in ("link", "dangling", "fifo"):
        if flags == os.O_WRONLY and name == "fifo":
            continue  # its other end is closed, which is an OSError of the system
        with pytest.raises(UnusableError, match=f"{name}: is"):
            open_file(str(tmp_path / name), flags, create=create, truncate=truncate)
    with pytest.raises(FileExistsError):
        make_file(str(tmp_path / "dangling"))
    assert lowest_free_descriptor() == free
    assert victim.read_bytes() == b"mine"
    assert {each.name for each in tmp_path.iterdir()} == {"victim", "link", "dangling", "fifo"}


def lowest_free_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_created_files_have_their_directorys_permissions_except_write_for_others(tmp_path: Path) -> None:
    for above, directory, file in (
        (0o700, 0o700, 0o600),
        (0o750, 0o750, 0o640),
        (0o755, 0o755, 0o644),
        (0o775, 0o775, 0o664),
        (0o777, 0o775, 0o664),
    ):
        tmp_path.chmod(above)
        made, opened = tmp_path / f"d{above}", tmp_path / f"f{above}"
        make_directory(str(made / "below"))
        os.close(open_file(str(opened), create=True))
        assert [stat.S_IMODE(each.stat().st_mode) for each in (made, made / "below", opened)] == [
            directory,
            directory,
            file,
        ]
        os.close(open_file(str(tmp_path / f"p{above}"), create=True, mode=0o600))
        assert stat.S_IMODE((tmp_path / f"p{above}").stat().st_mode) == 0o600
        make_directory(str(tmp_path / f"o{above}" / "below"), 0o700)
        assert stat.S_IMODE((tmp_path / f"o{above}").stat().st_mode) == 0o700
        os.umask(0o077)
        os.close(open_file(str(tmp_path / f"u{above}"), create=True))
        assert stat.S_IMODE((tmp_path / f"u{above}").stat().st_mode) == 0o600
        os.umask(0)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a file system in which no directory can be made")
def test_a_directory_that_cannot_be_created_is_the_systems_error() -> None:
    with pytest.raises(FileNotFoundError):
        make_directory("/proc/ottla/below")


def test_an_existing_directory_is_accepted_and_a_file_is_refused(tmp_path: Path) -> None:
    make_directory(str(tmp_path))
    make_directory(f"{tmp_path}/a//b/")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            make_directory(str(path))


def test_the_loser_of_two_concurrent_creations_opens_the_winners_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "file", os.open
    seen: list[str] = []

    def open_after_another(name: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not seen:
            seen.append(name)
            path.write_bytes(b"the other's")
            path.chmod(0o644)
        return real(name, flags, mode)

    monkeypatch.setattr(os, "open", open_after_another)
    descriptor = open_file(str(path), create=True)
    assert os.read(descriptor, 99) == b"the other's" and seen
    os.close(descriptor)


@pytest.mark.usefixtures("as_us")
def test_a_password_file_that_other_users_can_access_causes_a_warning(tmp_path: Path) -> None:
    file, link = tmp_path / "users", tmp_path / "link"
    file.write_bytes(b"\xef\xbb\xbfalice:\xc3\xa4\r\n")
    link.symlink_to(file)
    warnings = {
        (US, 0o600): "",
        (US, 0o660): "",
        (0, 0o640): "",
        (0, 0o644): f"all users of this machine can read the secrets in this file; chmod o-r {link}",
        (US, 0o602): f"all users of this machine can change the secrets in this file; chmod o-w {link}",
        (US, 0o777): f"all users of this machine can read and change the secrets in this file; chmod o-rw {link}",
        (STRANGER, 0o600): f"uid {STRANGER} can change the secrets in this file; chown {US} {link}",
        (STRANGER, 0o666): f"uid {STRANGER} can change the secrets in this file; chown {US} {link}",
    }
    for (owner, mode), warning in warnings.items():
        give(file, owner, mode)
        assert read_secrets(str(link)) == ("alice:ä\n", warning and f"{link}: {warning}"), (owner, oct(mode))
    assert read_secrets("/dev/null") == ("", "")
