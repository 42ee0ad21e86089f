"""Message definitions in the jars: requests, responses, and the records of logs and snapshots."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...support.brokers.apache_kafka import jars
from .tables import Table, differences

LICENSE_ENDS = "limitations under the License."
SHOWN_OF_FIELD = ("type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "mapKey", "entityType")
SHOWN_OF_MESSAGE = ("type", "apiKey", "validVersions", "flexibleVersions", "listeners", "latestVersionUnstable")


def messages(old: str, new: str) -> Table:
    """Compare the definitions in all jars of two releases."""
    before, after = definitions(jars(old)), definitions(jars(new))
    notes = [f"{len(before)} definitions in {old}, {len(after)} in {new}"]
    return Table("Messages", ("definition", "part", old, new), compare(before, after), notes)


def files(folder: Path, pattern: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield artifact, path and contents of each file in Apache Kafka's jars whose path matches, in their order."""
    for jar in sorted(folder.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for path in sorted(archive.namelist()):
                if re.fullmatch(pattern, path):
                    yield re.sub(r"-[\d.]+\.jar$", "", jar.name), path, archive.read(path)


def definitions(folder: Path) -> dict[str, str]:
    """Return the text of each definition by artifact and name."""
    found = files(folder, r"(common/)?(message|metadata)/\w+\.json")
    return {f"{artifact} {Path(path).stem}": data.decode() for artifact, path, data in found}


def api_names(folder: Path) -> dict[int, str]:
    """Return the name of each API by its key."""
    keys = {name: re.search(r'"apiKey": (\d+)', text) for name, text in definitions(folder).items()}
    named = {int(key[1]): name.partition(" ")[2] for name, key in keys.items() if key and name.endswith("Request")}
    return {key: name.removesuffix("Request") for key, name in named.items()}


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return (definition, part, old, new): a row for a new or lost definition, a row per changed field of others."""
    rows: list[tuple[str, ...]] = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name):
            continue
        if name not in old or name not in new:
            there = parts(old.get(name) or new[name])
            fields = ", ".join(part for part in there if part not in ("message", "comment"))
            text = f"{there['message']}; fields {fields}; {there['comment']}"
            rows.append((name, "all", text, "") if name in old else (name, "all", "", text))
            continue
        rows += [(name, *row) for row in differences(parts(old[name]), parts(new[name]))]
    return rows


def parts(text: str) -> dict[str, str]:
    """Return what a definition says: "message", "comment", and each field by its path."""
    body = text.partition(LICENSE_ENDS)[2] or text
    comments = " ".join(re.findall(r"(?:^|\s)//[ \t]*(.*)", body))
    definition = json.loads(re.sub(r"(^|\s)//[^\n]*", "", text))
    found = {"message": said(definition, SHOWN_OF_MESSAGE), "comment": f"comment: {comments}"}
    for one in (definition, *definition.get("commonStructs", ())):
        at = "" if one is definition else f"{one['name']}."
        found |= dict(fields(one.get("fields", ()), at))
    return found


def fields(listed: Any, at: str) -> Iterator[tuple[str, str]]:
    for one in listed:
        yield f"{at}{one['name']}", f"{said(one, SHOWN_OF_FIELD)}: {one.get('about', '')}"
        yield from fields(one.get("fields", ()), f"{at}{one['name']}.")


def said(definition: Any, names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {json.dumps(definition[name])}" for name in names if name in definition).replace('"', "")
