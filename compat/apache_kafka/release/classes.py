"""Classes in the jars: their sizes, summed by package, and the names of options in them."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ...support.brokers.apache_kafka import jars
from .messages import files
from .tables import Table, differences

NAMED = 4
"""The number of classes that are named per package."""
SMALL_BYTES = 1_000
CLASS = r"(?!.*/shaded/).*\.class"
OPTION = re.compile(rb"\x01\x00(.)([a-z][a-z0-9]*(?:\.[a-z0-9]+)+)", re.DOTALL)
"""A text in a class file: a tag, two bytes of length, and the text, here lower-case words with dots between."""
CODE = re.compile(r"(com|java|javax|jdk|kafka|org|scala|sun)\.")


def classes(old: str, new: str) -> Table:
    """Compare the classes of two releases, jar by jar."""
    before, after = bodies(jars(old)), bodies(jars(new))
    notes = [
        f"{len(before)} classes in {old}, {len(after)} in {new}, nested ones with their outer one",
        f"Packages with less than {SMALL_BYTES} changed bytes, and no class new or gone, are left out",
    ]
    columns = ("artifact", "package", "new", "gone", "changed", "bytes changed", "most changed classes")
    return Table("Classes", columns, by_package(before, after), notes)


def names(old: str, new: str) -> Table:
    """Compare the names of options in the classes of two releases: brokers do not describe internal ones."""
    before, after = option_names(jars(old)), option_names(jars(new))
    notes = [f"{len(before)} names in {old}, {len(after)} in {new}, with the classes that have them"]
    both = before.keys() & after.keys()
    sides = ({name: where for name, where in some.items() if name not in both} for some in (before, after))
    return Table("Names of options in classes", ("name", old, new), differences(*sides), notes)


def option_names(folder: Path) -> dict[str, str]:
    """Return the classes that have each text that looks like the name of an option."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, path, data in files(folder, CLASS):
        for length, text in OPTION.findall(data):
            if len(text) == length[0] and not CODE.match(text.decode()):
                found[text.decode()].add(outer(path).rpartition("/")[2])
    return {name: ", ".join(sorted(some)) for name, some in found.items()}


def bodies(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each class by artifact, package and name, with those of its nested ones."""
    found: dict[str, bytes] = defaultdict(bytes)
    for artifact, path, data in files(folder, CLASS):
        found[f"{artifact} {outer(path)}"] += data
    return found


def outer(path: str) -> str:
    return re.sub(r"\$.*|\.class$", "", path)


def by_package(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[tuple[str, ...]]:
    """Return a row per package with changes, that with most changed bytes first."""
    changed: dict[str, dict[str, int]] = defaultdict(dict)
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, b""), new.get(name, b"")
        if before != after:
            package, _, simple = name.rpartition("/")
            changed[package][simple] = len(after) - len(before)
    sizes = {package: sum(map(abs, some.values())) for package, some in changed.items()}
    rows = []
    for package, some in sorted(changed.items(), key=lambda each: -sizes[each[0]]):
        added = sum(f"{package}/{simple}" not in old for simple in some)
        gone = sum(f"{package}/{simple}" not in new for simple in some)
        if added or gone or sizes[package] >= SMALL_BYTES:
            largest = sorted(some.items(), key=lambda each: -abs(each[1]))[:NAMED]
            counts = (added, gone, len(some) - added - gone, sizes[package])
            artifact, _, path = package.partition(" ")
            named = ", ".join(f"{simple} {size:+d}" for simple, size in largest)
            rows.append((artifact, path.replace("/", "."), *map(str, counts), named))
    return rows
