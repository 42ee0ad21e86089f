"""Files that another user may have put into a data directory, or may read there, for each file of a broker."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import KafkaError
from ottla.server.telemetry.receivers import receiver_of
from ottla.storage.disk import paths
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.os_files import OsFiles
from support.broker.stored_broker import StoredBroker

STRANGER = 4711
MINE = b"what the user keeps elsewhere"
LAZY = (paths.INDEX, paths.TIME_INDEX, paths.TXN_INDEX, paths.SNAPSHOT)
"""Files of a segment that a clean start does not open."""


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def filled(directory: Path) -> Path:
    """Return a data directory with all files that a clean stop leaves."""
    with StoredBroker(OsFiles(), [str(directory)]) as stored:
        stored.create("t", segment_bytes="1048576")
        for value in (b"1", b"2"):
            stored.append("t", 0, value)
    return directory


def everything_in(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def linked(path: Path, elsewhere: Path) -> None:
    """Replace a file with a link to it: a start that follows the link notices nothing."""
    if path.is_dir():
        shutil.move(path, elsewhere)
    else:
        elsewhere.write_bytes(path.read_bytes() or MINE)
        path.unlink()
    path.symlink_to(elsewhere)


def given_away(path: Path, _elsewhere: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def open_for_all(path: Path, _elsewhere: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def content(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    return {each.name: each.read_bytes() for each in path.iterdir()} if path.exists() else {}


@pytest.mark.parametrize("attack", [linked, given_away, open_for_all])
def test_no_foreign_file_is_used_and_linked_files_keep_their_bytes(
    tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    if attack is given_away and os.geteuid() != 0:
        pytest.skip("root alone can give files to other users")
    model = filled(tmp_path / "model")
    names = everything_in(model)
    assert {".lock", "ottla.json", "meta.properties", "t-0", "t-0/00000000000000000000.log"} <= {*names}
    for number, name in enumerate(names):
        directory, elsewhere = tmp_path / str(number), tmp_path / f"elsewhere-{number}"
        shutil.copytree(model, directory)
        attack(directory / name, elsewhere)
        before = content(elsewhere)
        if name.endswith(LAZY):
            try:
                with StoredBroker(OsFiles(), [str(directory)]) as stored:
                    stored.append("t", 0, b"3")
            except (DataDirectoryError, KafkaError) as error:
                assert name in str(error)
        else:
            with pytest.raises((DataDirectoryError, OSError)) as refused:
                StoredBroker(OsFiles(), [str(directory)])
                pytest.fail(f"{name} was taken")
            assert str(directory / name) in str(refused.value), name
            assert "\n" not in str(refused.value)
        assert content(elsewhere) == before, name


@pytest.mark.parametrize(
    ("mode", "of_directories", "of_files"), [(None, 0o700, 0o600), (0o750, 0o750, 0o640), (0o755, 0o755, 0o644)]
)
def test_data_are_private_unless_the_directory_allows_more_and_snapshots_always_are(
    tmp_path: Path, mode: int | None, of_directories: int, of_files: int
) -> None:
    data, snapshot = tmp_path / "above" / "data", tmp_path / "copies" / "snapshot"
    if mode is not None:
        data.mkdir(parents=True)
        data.chmod(mode)
        snapshot.mkdir(parents=True)
    with ottla.Broker(data, admin=0) as broker:
        broker.create_topic("t")
        broker.produce("t", b"1")
        broker.snapshot(snapshot)
        broker.produce("t", b"2")
        broker.restore(snapshot)
    for root, directory, file in ((data, of_directories, of_files), (snapshot, 0o700, 0o600)):
        found = [root, *root.rglob("*")]
        assert any(path.suffix == ".log" for path in found)
        for path in found:
            wanted = directory if path.is_dir() else 0o600 if path.name == "ottla.json" else file
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    if mode is None:
        assert stat.S_IMODE(data.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("token", [None, "a-token"])
@pytest.mark.parametrize(
    ("told", "of"),
    [
        ({}, None),
        ({"users": {"alice": "secret"}}, "logins"),
        ({"acls": ["User:alice allow READ topic:t"]}, "ACLs"),
        ({"users": {"alice": "secret"}, "acls": ["User:alice allow READ topic:t"]}, "logins and ACLs"),
    ],
)
def test_an_admin_listener_without_a_token_is_reported_if_it_bypasses_security(
    told: dict[str, object], of: str | None, token: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), ottla.Broker(admin=0, admin_token=token, **told):  # type: ignore[arg-type]
        pass
    lines = [line for line in caplog.messages if "bypasses" in line]
    assert len(lines) == (of is not None and token is None)
    assert all(f"bypasses {of}: " in line for line in lines)


@pytest.mark.parametrize("name", [paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN])
@pytest.mark.parametrize("attack", [linked, given_away, open_for_all])
def test_a_forged_reset_removes_nothing(tmp_path: Path, attack: Callable[[Path, Path], None], name: str) -> None:
    """In a directory with mode 1777, another user may create the file that announces a reset."""
    if attack is given_away and os.geteuid() != 0:
        pytest.skip("root alone can give files to other users")
    data, elsewhere = filled(tmp_path / "data"), tmp_path / "elsewhere"
    before = {each: (data / each).read_bytes() for each in everything_in(data) if (data / each).is_file()}
    following = data / name
    following.mkdir()
    (following / paths.EXCHANGE_FILE).write_text("0" * 32)
    if attack is given_away:
        given_away(following / paths.EXCHANGE_FILE, elsewhere)
    attack(following, elsewhere)
    with pytest.raises(DataDirectoryError, match=f"{name}: "):
        StoredBroker(OsFiles(), [str(data)])
    assert before == {each: (data / each).read_bytes() for each in before}


def test_the_owner_of_an_emptied_directory_is_checked_after_creation(tmp_path: Path) -> None:
    """Another user may create the directory between the check that it is missing and its creation."""
    data = tmp_path / "data"

    class Overtaken(OsFiles):
        def make_dir(self, path: str, *, mode: int | None = None) -> None:
            super().make_dir(path, mode=mode)
            if path == str(data):
                data.chmod(0o777)

    with pytest.raises(DataDirectoryError, match=r"data: all users of this machine can write to it \(mode 0777\)"):
        StoredBroker(Overtaken(), [str(data)])
    assert list(data.iterdir()) == []


def test_client_metrics_reports_are_private_and_never_in_foreign_directories(tmp_path: Path) -> None:
    receiver_of(str(tmp_path / "made" / "reports"))
    assert stat.S_IMODE((tmp_path / "made" / "reports").stat().st_mode) == 0o700
    (tmp_path / "for-all").mkdir()
    with pytest.raises(OSError, match="for-all: all users of this machine can write to it"):
        receiver_of(str(tmp_path / "for-all"))
