"""A random history of a registry, and what must be there after it: only what was answered counts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from support.broker.registry_calls import RegistryCalls, record_schema

SUBJECTS = ("a", "b", ":.c:a", ":.c:b")
SCHEMAS = tuple(
    record_schema(*(f"f{number} int 0" for number in range(count)), name=f"R{count}") for count in range(1, 7)
)
LEVELS = ("NONE", "FULL", None)
Operation = tuple[str, str, str, Any]
"""Its kind, method, path and body."""


class RegistryHistory:
    """Operations, and the answers to them. All levels are NONE for schemas, so that each may follow each.

    Args:
        rng: Chooses the operations.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.ids: dict[tuple[str, str], int] = {}
        """Id of a schema in a context, while a version has it."""
        self.versions: dict[str, dict[int, tuple[int, str, bool]]] = {}
        """Id, text and whether it is deleted, by subject and version."""
        self.configs: dict[str, str] = {}

    def operations(self, count: int) -> Iterator[Operation]:
        """Yield operations; each depends on the answers before."""
        for _ in range(count):
            subject = self._rng.choice(SUBJECTS)
            there = self.versions.get(subject, {})
            live = [version for version, (_, _, deleted) in there.items() if not deleted]
            gone = [version for version in there if version not in live]
            path = f"/subjects/{subject}"
            kind = self._rng.choices(
                ("register", "delete version", "purge version", "delete", "purge", "config"), (12, 3, 2, 1, 1, 2)
            )[0]
            if kind == "delete version" and live:
                yield kind, "DELETE", f"{path}/versions/{self._rng.choice(live)}", None
            elif kind == "purge version" and gone:
                yield kind, "DELETE", f"{path}/versions/{self._rng.choice(gone)}?permanent=true", None
            elif kind == "delete" and live:
                yield kind, "DELETE", path, None
            elif kind == "purge" and gone and not live:
                yield kind, "DELETE", f"{path}?permanent=true", None
            elif kind == "config":
                yield kind, "PUT", f"/config/{subject}x", {"compatibility": self._rng.choice(("NONE", "FULL"))}
            else:
                yield "register", "POST", f"{path}/versions", {"schema": self._rng.choice(SCHEMAS)}

    def answered(self, operation: Operation, answer: Any) -> None:
        """Take the answer to an operation into account. AssertionError if it contradicts an earlier one."""
        kind, _, path, body = operation
        subject = path.split("/")[2].partition("?")[0]
        versions = self.versions.setdefault(subject, {})
        if kind == "register":
            text, context = body["schema"], subject[: subject.rfind(":") + 1]
            known = self.ids.setdefault((context, text), answer["id"])
            assert known == answer["id"], "one schema has one id"
            for version, (schema_id, _, deleted) in list(versions.items()):
                if deleted and schema_id == answer["id"]:
                    del versions[version]
            versions[answer["version"]] = (answer["id"], text, False)
        elif kind == "config":
            self.configs[subject] = answer["compatibility"]
        else:
            numbers = answer if isinstance(answer, list) else [answer]
            for version in numbers:
                if kind.startswith("purge"):
                    del versions[version]
                else:
                    versions[version] = (*versions[version][:2], True)
        self._forget_ids()

    def adopt(self, operation: Operation, registry: RegistryCalls) -> None:
        """Take what a registry has for the subject of an operation whose answer was lost: all of its effect, or nothing."""
        kind, _, path, body = operation
        subject = path.split("/")[2].partition("?")[0]
        if kind == "config":
            status, answer = registry.ask("GET", f"/config/{subject}")
            if status == 200 and answer["compatibilityLevel"] == body["compatibility"]:
                self.configs[subject] = body["compatibility"]
            return
        before, after = self.versions.get(subject, {}), found(registry).get(subject, {})
        if kind == "register":
            (*new,) = after.keys() - before.keys()
            assert len(new) <= 1 and all(after[version][1] == body["schema"] for version in new)
            assert all(after[version] == each for version, each in before.items() if not each[2])
            context = subject[: subject.rfind(":") + 1]
            for version in new:
                assert self.ids.setdefault((context, body["schema"]), after[version][0]) == after[version][0]
        elif kind.startswith("purge"):
            assert after.items() <= before.items()
        else:
            assert {version: each[:2] for version, each in after.items()} == {
                version: each[:2] for version, each in before.items()
            }
        self.versions[subject] = after
        self._forget_ids()

    def _forget_ids(self) -> None:
        present = {
            (subject[: subject.rfind(":") + 1], text)
            for subject, versions in self.versions.items()
            for _, text, _ in versions.values()
        }
        self.ids = {key: schema_id for key, schema_id in self.ids.items() if key in present}

    def check(self, registry: RegistryCalls) -> None:
        """Raise AssertionError unless a registry has all that was answered, and nothing else."""
        assert found(registry) == {subject: versions for subject, versions in self.versions.items() if versions}
        for subject, level in self.configs.items():
            assert registry.get(f"/config/{subject}") == {"compatibilityLevel": level}
        for (context, text), schema_id in self.ids.items():
            assert registry.get(f"/schemas/ids/{schema_id}?subject={context}")["schema"] == text


def found(registry: RegistryCalls) -> dict[str, dict[int, tuple[int, str, bool]]]:
    """Return all versions in a registry, as `RegistryHistory.versions` has them."""
    versions: dict[str, dict[int, tuple[int, str, bool]]] = {}
    for each in registry.get("/schemas?deleted=true"):
        schema = json.dumps(json.loads(each["schema"]), separators=(",", ":"))
        versions.setdefault(each["subject"], {})[each["version"]] = (each["id"], schema, each.get("deleted", False))
    return versions
