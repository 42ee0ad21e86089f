"""The clients' answers, saved as one JSON file per client and a line per cell, and compared."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"
DIFFERENCES = Path(__file__).with_name("differences.json")
_TOKEN_ID = re.compile(r"\b(?=[\w-]*[a-z])[A-Za-z0-9_-]{22}\b")
"""A token id. Names of errors do not match, as they have only capitals."""
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+|host=127\.0\.0\.1 port=\d+")
_REFUSED = re.compile(r"Request (?:Request\(.*\)|\w+) needs")
"""Apache Kafka shows its own object in place of the API."""


@dataclass
class Answers:
    """One client's: by the id of a cell, the outcome in a line."""

    client: str
    logins: dict[str, str] = field(default_factory=dict)
    actions: dict[str, str] = field(default_factory=dict)


def outcome(answer: dict[str, str]) -> str:
    """Result and the broker's words."""
    return normal(f"{answer['result']}: {answer['said']}" if answer.get("said") else answer["result"])


def normal(text: str) -> str:
    """Return an outcome without what is another one each time."""
    return _REFUSED.sub("Request REQUEST needs", _TOKEN_ID.sub("TOKEN", _ADDRESS.sub("ADDRESS", text)))


def read(client: str) -> Answers | None:
    """Return the recorded answers of Apache Kafka; None if there are none."""
    path = FOLDER / f"{client}.json"
    return Answers(**json.loads(path.read_text())) if path.exists() else None


def write(client: str, answers: Answers) -> Path:
    """Keep it."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{client}.json"
    path.write_text(json.dumps(vars(answers), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return path


@dataclass(frozen=True)
class Named:
    """A difference that stays: cells of clients by patterns of the shell, what Ottla is expected to make of them, and why."""

    client: str
    cell: str
    ottla: str
    why: str

    def covers(self, client: str, cell: str, ours: str) -> bool:
        return fnmatchcase(client, self.client) and fnmatchcase(cell, self.cell) and fnmatchcase(ours, self.ottla)


def named() -> list[Named]:
    """Return the named differences of the file."""
    return [Named(**row) for row in json.loads(DIFFERENCES.read_text())]
