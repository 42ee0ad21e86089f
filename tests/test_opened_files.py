"""The only module that opens files for writing and makes directories; any other one is found by its syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ("protocol", "storage", "server", "pipeline")
THE_PLACE = "storage/disk/own_files.py"
OPENERS = {"open_file", "make_file"}
"""Functions of that module: `open` writes to their descriptor, or to a variable `descriptor` that has one."""
READ_ONLY = {"os.O_RDONLY", "os.O_CLOEXEC", "os.O_DIRECTORY", "os.O_NOFOLLOW"}
SAFE = {
    "tempfile.gettempdir",
    "tempfile.mkdtemp",
    "tempfile.mkstemp",
    "tempfile.TemporaryFile",
    "tempfile.TemporaryDirectory",
}
"""Functions that create random names, with O_EXCL, for their owner alone."""
_ALWAYS = re.compile(
    r"^os\.(mkdir|makedirs|mkfifo|mknod|symlink|truncate|umask)$|^tempfile\.|^shutil\.(copy|move|make_archive|unpack)"
    r"|\b(write_text|write_bytes|mkdir|touch|symlink_to|FileIO|\w*FileHandler)$|^pq\.(ParquetWriter|write_table)$"
)
_WRITING = re.compile(r"[bt]?(?:[wax][bt]?\+?|r[bt]?\+)[bt]?")
ALLOWED = {
    ("pipeline/snapshot/targets.py", "pq.ParquetWriter"): "a name that is drawn, in a folder that the job has made",
}


_MAY_WRITE = re.compile(
    r"(?:open|write_text|write_bytes|mkdir|touch|symlink_to|FileIO|FileHandler|ParquetWriter|write_table)\("
    r"|\b(?:os\.(?:makedirs|mkfifo|mknod|symlink|truncate|umask)\(|tempfile\.|shutil\.)"
)
"""A pattern that matches every call that `offences` finds: most files have none, and need not be parsed."""


def offences(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each call that may write to a path, or create one."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in ("open", "io.open"):
            mode = (
                node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
            )
            first = node.args[0]
            is_ours = isinstance(first, ast.Call) and ast.unparse(first.func) in OPENERS
            is_read = mode is None or (isinstance(mode, ast.Constant) and str(mode.value).strip("bt") == "r")
            if not is_read and not is_ours and ast.unparse(first) != "descriptor":
                yield node.lineno, name
        elif name == "os.open":
            flags = {ast.unparse(each) for each in ast.walk(node.args[1]) if isinstance(each, ast.Attribute)}
            if not (flags and flags <= READ_ONLY) and ast.unparse(node.args[0]) != "os.devnull":
                yield node.lineno, name
        elif name.endswith(".open"):  # of a path, gzip and the like
            texts = [
                each.value
                for each in (*node.args[:2], *(k.value for k in node.keywords))
                if isinstance(each, ast.Constant)
            ]
            if any(isinstance(text, str) and _WRITING.fullmatch(text) for text in texts):
                yield node.lineno, name
        elif name not in SAFE and _ALWAYS.search(name):
            yield node.lineno, name


@pytest.mark.parametrize("floor", FLOORS)
def test_only_one_module_writes_to_paths(floor: str) -> None:
    found = {}
    for path in sorted((ROOT / floor).rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        for line, name in offences(text) if _MAY_WRITE.search(text) else ():
            if where != THE_PLACE and (where, name) not in ALLOWED:
                found[f"{where}:{line}"] = name
    assert found == {}, f"use {THE_PLACE}"


def test_each_way_of_writing_is_found_and_reading_is_not() -> None:
    writing = """
open(path, "w"); open(path, mode="ab"); open(path, mode); open(path, "r+b"); io.open(path, "x")
os.open(path, os.O_RDWR); os.open(path, flags | os.O_CREAT, 0o600); os.open(path, flags); os.mkdir(path); os.makedirs(path, exist_ok=True)
Path(path).write_text(text); path.write_bytes(data); path.mkdir(); path.mkdir(parents=True); path.touch()
tempfile.NamedTemporaryFile(); tempfile.mktemp(); shutil.copyfile(a, b); logging.FileHandler(path)
pq.ParquetWriter(path, schema); path.open("w"); path.open(mode="rb+"); gzip.open(path, "wb"); Path(path).open("at")
"""
    reading = """
open(path); open(path, "rb"); open(path, mode="r"); open(make_file(path), "w"); open(descriptor, "wb")
os.open(path, os.O_RDONLY | os.O_DIRECTORY); os.open(os.devnull, os.O_WRONLY); tempfile.mkdtemp(prefix="x")
files.open(path, create=True); broker.open(); path.open("rb"); path.open(); gzip.open("a.gz", "rb"); tempfile.gettempdir()
"""
    assert len(list(offences(writing))) == writing.count(";") + len(writing.strip().splitlines())
    assert list(offences(reading)) == []
    calls = [call for line in writing.strip().splitlines() for call in line.split(";")]
    assert [call for call in calls if not _MAY_WRITE.search(call)] == []
