"""The examples of changes in the sources of Confluent's registry, which its own tests judge: the verdicts must be the same."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.protocol.schemas import Schema, parse_schema
from ottla.server.registry.options import reserved_fields
from ottla.server.registry.schemas import find_incompatibilities
from ottla.server.registry.schemas.field_names import find_conflicts

from ..support.suite import NotRunError, Suite
from ..support.suite_sources import suite_sources

FOLDERS = {"JSON": "json-schema-provider/src/test/resources", "PROTOBUF": "protobuf-provider/src/test/resources"}
FILES = "diff-*.json"
_COMMA_BEFORE_AN_END = re.compile(r",(?=\s*[}\]])")
"""The parser of these tests allows it."""


def judge(suite: Suite) -> None:
    """Compare the verdict on each example; each file is a check."""
    try:
        sources = suite_sources("SCHEMA_REGISTRY", "confluentinc/schema-registry", "json-schema-provider/pom.xml")
    except NotRunError as missing:
        suite.skip("Confluent's examples of changes", f"needs {missing}")
        return
    for kind, folder in FOLDERS.items():
        for file in sorted((sources / folder).glob(FILES)):
            examples = json.loads(_COMMA_BEFORE_AN_END.sub("", file.read_text()))
            others = [
                f"{each['description']}: {found}"
                for each in examples
                for found in _differences(kind, each, sources / folder)
            ]
            name = f"{len(examples)} of Confluent's examples: {kind}, {file.name}"
            suite.check(name, bool(examples) and not others, "; ".join(others)[:2000])


def _differences(kind: str, example: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield in which policies the verdict on an example is another one than Confluent's."""
    older, newer = (_schema(kind, example, which, folder) for which in ("original", "update"))
    reserved_before, reserved = (reserved_fields(example.get(f"{which}_metadata")) for which in ("original", "update"))
    conflicts = find_conflicts(newer, reserved, reserved_before)
    expected = {"STRICT": example["compatible"], "LENIENT": example.get("compatible_lenient", example["compatible"])}
    for policy, is_compatible in expected.items():
        found = find_incompatibilities("BACKWARD", newer, [older], is_lenient=policy == "LENIENT")
        if is_compatible == bool(found or conflicts):
            yield f"{policy}: expected {'no differences' if is_compatible else 'differences'}, found {found} {conflicts}"


def _schema(kind: str, example: dict[str, Any], which: str, folder: Path) -> Schema:
    references = {
        each["name"]: parse_schema(kind, each["dependency"], {})
        for each in example.get(f"{which}_dependencies") or ()
        if "dependency" in each  # Others are Google's, which every registry has.
    }
    schema = example[f"{which}_schema"]
    if not isinstance(schema, str):
        schema = json.dumps(schema)
    elif schema.endswith(".proto"):
        schema = (folder / schema).read_text()
    return parse_schema(kind, schema, references, is_new=False)
