"""Apache Kafka's own message definitions, read from its jars if this machine has them; never kept in this repository.

The jars are looked for at `OTTLA_KAFKA_CLIENTS_JAR` (others in the same folder) and in the local Maven repository, where
`mvn dependency:get -Dartifact=org.apache.kafka:kafka-clients:4.4.0` puts them.
"""

import json
import os
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

KAFKA_VERSION = "4.4.0"


def find_jar(artifact: str) -> Path | None:
    """Return the jar of an artifact of Apache Kafka, None if this machine does not have it."""
    name = f"{artifact}-{KAFKA_VERSION}.jar"
    places = [Path.home() / ".m2/repository/org/apache/kafka" / artifact / KAFKA_VERSION / name]
    if given := os.environ.get("OTTLA_KAFKA_CLIENTS_JAR"):
        places.insert(0, Path(given).parent / name)
    return next((place for place in places if place.is_file()), None)


def definitions(artifact: str) -> dict[str, Any]:
    """Return message definitions by name. Skips the test if the jar is missing."""
    jar = find_jar(artifact)
    if jar is None:
        pytest.skip(f"not run: needs the {artifact} jar of Apache Kafka {KAFKA_VERSION}")
    return _read(jar)


@cache
def _read(jar: Path) -> dict[str, Any]:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        return {one["name"]: one for one in (parse(archive.read(name).decode()) for name in names)}


def parse(text: str) -> Any:
    """Parse JSON with line comments; no string in the definitions holds `//` after a quote or a space."""
    return json.loads(re.sub(r"(^|\s)//[^\n]*", "", text))


def in_range(versions: str | None, version: int) -> bool:
    """Return whether a range of the definitions ("3+", "0-7", "2", "none") contains this version."""
    if versions is None or versions == "none":
        return False
    first, _, last = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(first) <= version <= int(last or first)


def bounds(versions: str) -> tuple[int, int]:
    first, _, last = versions.partition("-")
    return int(first), int(last or first)
