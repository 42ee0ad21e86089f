"""Staged files that are not what they must be, and file systems that are not the log's: refused by name, nothing is changed."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ..support.suite import Suite
from .ground import Driver, Ground
from .served import Served
from .traffic import values_of

OTHER_DISK = Path("/dev/shm")


def links_away(path: Path) -> None:
    elsewhere = path.parents[3] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def flips_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


SPOILT: Mapping[str, tuple[str, Callable[[Path], object]]] = {
    "a log that is a link": (f"{0:020}.log", links_away),
    "an index that is a link": (f"{0:020}.index", links_away),
    "a manifest that is a link": ("manifest.json", links_away),
    "a log with a bit flipped": (f"{0:020}.log", flips_a_bit),
    "a log that is gone": (f"{0:020}.log", Path.unlink),
    "a time index that is longer": (f"{0:020}.timeindex", lambda path: path.write_bytes(path.read_bytes() + bytes(12))),
    "a manifest that is cut": ("manifest.json", lambda path: path.write_bytes(path.read_bytes()[:-9])),
    "a manifest of other files": (
        "manifest.json",
        lambda path: path.write_text(path.read_text().replace(".timeindex", ".../x")),
    ),
}


def staged_files(suite: Suite, ground: Ground) -> None:
    wrong = []
    with Served(ground) as server:
        for name, (file, spoil) in SPOILT.items():
            for online in (True, False):
                ground.restore()
                spoil(ground.staging / f"{0:020}" / file)
                before = ground.untouched()
                if online:
                    server.start()
                how = ("--admin", server.admin) if online else ()
                code, text = Driver("install", ground.data, *how).wait()
                if online:
                    server.kill()
                if code != 1 or file not in text:
                    wrong.append(f"{name}, online {online}: {code} {text}")
                after = ground.untouched()
                changed = [each for each in {*before, *after} if before.get(each) != after.get(each)]
                if changed := [each for each in changed if Path(each).name[:1].isdecimal() and ".snapshot" not in each]:
                    wrong.append(f"{name}, online {online}: changed {changed}")
                (ground.directory / "elsewhere").unlink(missing_ok=True)
    suite.equal(f"{len(SPOILT)} kinds of bad staged files are refused by name, online and offline", [], wrong)


def other_disks(suite: Suite, ground: Ground) -> None:
    """Staging, or data, on a file system of its own."""
    name = "staging on another file system is refused"
    if not OTHER_DISK.is_dir() or OTHER_DISK.stat().st_dev == ground.directory.stat().st_dev:
        suite.skip(name, f"{OTHER_DISK} is none")
        return
    away = Path(tempfile.mkdtemp(prefix="ottla-installs-", dir=OTHER_DISK))
    wrong, words = list[str](), "expected the file system of"
    try:
        ground.restore()
        shutil.move(ground.beside, away / "beside")
        ground.beside.symlink_to(away / "beside")
        before = ground.below()
        with Served(ground) as server:
            server.start()
            found = Driver("install", ground.data, "--admin", server.admin).wait()
            if found[0] != 1 or words not in found[1]:
                wrong.append(f"through a server: {found}")
            group = ground.staging / f"{0:020}"
            _, lease = server.post("pause", lease_ms=60_000)
            sources = server.status()["segments"][: len(ground.plan()["groups"][0])]
            fields = {"sources": sources, "staged": str(group), "manifest_crc": crc_of(group / "manifest.json")}
            asked = server.post("install", lease=lease["lease"], **fields)
            if asked[0] != 422 or "cross-device" not in asked[1]["error"]:
                wrong.append(f"asked of the server: {asked}")
            server.stop()
        found = Driver("install", ground.data).wait()
        if found[0] != 1 or words not in found[1]:
            wrong.append(f"offline: {found}")
        if ground.below() != before:
            wrong.append("the log is changed")
        shutil.rmtree(away / "beside")
        (away / "beside").mkdir()
        for command in ("plan", "compact"):
            found = Driver(command, ground.data, "--topic", "t", "--config", "internal.segment.bytes=12000").wait()
            if found[0] != 1 or words not in found[1] or list((away / "beside").iterdir()):
                wrong.append(f"{command}: {found}")
    finally:
        shutil.rmtree(away)
    suite.equal(f"{name}, by server and driver; a plan is not made there", [], wrong)
    data_behind_a_link(suite, ground)


def data_behind_a_link(suite: Suite, ground: Ground) -> None:
    """Check an install with the data, and the staging next to it, on another file system."""
    away, wrong = Path(tempfile.mkdtemp(prefix="ottla-installs-", dir=OTHER_DISK)), list[str]()
    topic = ("--topic", "t", "--config", "min.cleanable.dirty.ratio=0")
    try:
        ground.restore()
        shutil.rmtree(ground.beside)
        shutil.move(ground.data, away / "data")
        ground.data.symlink_to(away / "data")
        with Served(ground) as server:
            server.start()
            for command in (("plan", *topic), ("compact", *topic), ("install", "--admin", server.admin)):
                found = Driver(command[0], ground.data, *command[1:]).wait()
                if found[0] != 0:
                    wrong.append(f"{command}: {found}")
            if values_of(server.bootstrap) != ground.values:
                wrong.append("newest values are lost")
        if ground.beside.exists() or not (away / "data.ottla-pipeline").is_dir():
            wrong.append("the staging is not beside the data")
    finally:
        shutil.rmtree(away)
    suite.equal("data linked to another file system: the staging is next to the data, all works", [], wrong)


def crc_of(path: Path) -> int:
    from crc32c import crc32c

    return int(crc32c(path.read_bytes()))
