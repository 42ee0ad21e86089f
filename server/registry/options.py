"""Metadata and rules, which schemas have beside their text, and the options of a compatibility level, which may change them.

metadata    {"tags": {PATH: [TAG]}, "properties": {NAME: TEXT}, "sensitive": [NAME]}
rules       {"migrationRules": [RULE], "domainRules": [RULE], "encodingRules": [RULE], "enableAt": …}

The registry stores rules and merges them; the serializers of clients carry them out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from . import errors
from .names import SUBJECT_CHARACTERS_MAX
from .schemas import LEVELS

Json: TypeAlias = Any

VALUES_MAX, CHARACTERS_MAX, DEPTH_MAX = 10_000, 256 << 10, 20
"""Limits of a schema's metadata, and of its rules: they are digested and written on Trio's thread."""
RULE_NAME_CHARACTERS_MAX = 256
NUMBER_OF_VERSION = "confluent:version"
"""A property of metadata: the registry sets it to the number of the version."""
RESERVED_FIELDS = "confluent:reserved"
"""A property of metadata: names, with commas, that no field may have if `validateFields` is on."""

_MIGRATION, _OTHERS = ("UPGRADE", "DOWNGRADE", "UPDOWN"), ("WRITE", "READ", "WRITEREAD")
_MODES_OF_RULES = {"migrationRules": _MIGRATION, "domainRules": _OTHERS, "encodingRules": _OTHERS}
_KINDS_OF_RULES = ("TRANSFORM", "CONDITION")

OPTIONS: Mapping[str, type] = {
    "compatibilityLevel": str,
    "compatibilityGroup": str,
    "compatibilityPolicy": str,
    "normalize": bool,
    "validateNewSchemas": bool,
    "validateFields": bool,
    "validateRules": bool,
    "alias": str,
    "aliasForDeks": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}
"""Options of a compatibility level.

`compatibilityPolicy` LENIENT allows more changes of a JSON Schema; `validateFields` checks names of fields. `validateRules` has no
effect, as in Confluent's registry. `compatibilityGroup` names a property of the metadata: only versions with the same value are compared. A subject with an `alias` is
another subject. Defaults and overrides are merged into each new version.
"""
STRICT, LENIENT = "STRICT", "LENIENT"


def check_options(options: Mapping[str, Json]) -> None:
    """Check options that a client sent. RegistryError: 422, 42203, 42209, 42210."""
    for name, value in options.items():
        if value is None:
            continue
        kind = OPTIONS[name]
        if not isinstance(value, kind):
            raise errors.malformed(f"{name}: expected {kind.__name__}, found {errors.shown(value)}")
        if isinstance(value, str) and len(value) > SUBJECT_CHARACTERS_MAX:
            raise errors.too_large(f"{name}: too long ({len(value)} characters, limit {SUBJECT_CHARACTERS_MAX})")
        if name == "compatibilityPolicy" and value not in (STRICT, LENIENT):
            raise errors.malformed(f"{name}: not supported ({errors.shown(value)}, expected {STRICT} or {LENIENT})")
        if name.endswith("Metadata"):
            check_metadata(value, name)
        elif name.endswith("RuleSet"):
            check_rules(value, name)
    level = options.get("compatibilityLevel")
    if level is not None and level not in LEVELS:
        raise errors.invalid_level(LEVELS)


def check_metadata(value: Json, name: str = "metadata") -> None:
    """Check metadata that a client sent. RegistryError 422: it is malformed, or exceeds the limits."""
    _check_plain(value, name)
    if value is None:
        return
    for field in ("tags", "properties", "sensitive"):
        found = value.get(field)
        if found is None:
            continue
        if field != "sensitive":
            found = list(found.values()) if isinstance(found, dict) else None
        if not (all(map(_is_texts, found)) if field == "tags" and found is not None else _is_texts(found)):
            raise errors.malformed(f"{name}: {field}: expected texts, found {errors.shown(value[field])}")


def _is_texts(found: Json) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def check_rules(value: Json, name: str = "ruleSet") -> None:
    """Check rules that a client sent. RegistryError: 422 for their form and size, 42210 for a rule without effect."""
    _check_plain(value, name)
    if value is None:
        return
    names = set()
    for field, modes in _MODES_OF_RULES.items():
        rules = value.get(field)
        if rules is not None and not (isinstance(rules, list) and all(isinstance(each, dict) for each in rules)):
            raise errors.malformed(f"{name}: {field}: expected an array of objects, found {errors.shown(rules)}")
        for rule in rules or ():
            _check_rule(rule, modes)
            if rule["name"] in names:
                raise errors.invalid_rules(f"Found rule with duplicate name '{rule['name']}'")
            names.add(rule["name"])


def _check_rule(rule: dict[str, Json], modes: tuple[str, ...]) -> None:
    name = rule.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= RULE_NAME_CHARACTERS_MAX:
        raise errors.invalid_rules(
            f"rule: name: expected 1 to {RULE_NAME_CHARACTERS_MAX} characters, found {errors.shown(name)}"
        )
    plain = name.replace("_", "a")
    if not plain[0].isalpha() or not plain.replace("-", "a").isalnum():
        raise errors.invalid_rules(f"rule {name}: expected letters, digits, _ and -, a letter or _ first")
    if not isinstance(rule.get("type"), str):
        raise errors.invalid_rules(f"rule {name}: type is missing")
    mode, kind = rule.get("mode") or "WRITEREAD", rule.get("kind") or _KINDS_OF_RULES[0]
    if mode not in modes:
        raise errors.invalid_rules(f"rule {name}: mode: expected {', '.join(modes)}, found {errors.shown(mode)}")
    if kind not in _KINDS_OF_RULES:
        raise errors.invalid_rules(
            f"rule {name}: kind: expected {' or '.join(_KINDS_OF_RULES)}, found {errors.shown(kind)}"
        )
    for action in ("onSuccess", "onFailure"):
        if mode not in ("WRITEREAD", "UPDOWN") and "," in str(rule.get(action)):
            raise errors.invalid_rules(f"rule {name}: {action}: two actions need the mode WRITEREAD or UPDOWN")


def _check_plain(value: Json, name: str) -> None:
    """RegistryError 422: metadata or rules are not an object, or exceed the limits."""
    if not isinstance(value, dict | None):
        raise errors.malformed(f"{name}: expected an object")
    level, values_count, characters = [value], 0, 0
    for _ in range(DEPTH_MAX):
        below: list[Json] = []
        for each in level:
            if isinstance(each, float) and not math.isfinite(each):
                raise errors.malformed(f"{name}: a number is too large")
            members = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
            values_count += 1 + len(members)
            if values_count <= VALUES_MAX:
                texts = each if isinstance(each, dict) else [each] if isinstance(each, str) else ()
                characters += sum(map(len, texts))
            if values_count > VALUES_MAX or characters > CHARACTERS_MAX:
                raise errors.malformed(f"{name}: too large (limits: {VALUES_MAX} values, {CHARACTERS_MAX} characters)")
            below += members
        level = below
    if level:
        raise errors.malformed(f"{name}: nested too deeply (limit {DEPTH_MAX} levels)")


def merged_metadata(*found: Json) -> Json:
    """Return metadata in which later ones are stronger; None if there are none. Other clients may have written any JSON."""
    merged: dict[str, Json] | None = None
    for each in found:
        if isinstance(each, dict):
            before = merged or {}
            merged = before | each
            for field in ("tags", "properties"):
                both = [part for part in (before.get(field), each.get(field)) if isinstance(part, dict)]
                if len(both) == 2:
                    merged[field] = both[0] | both[1]
            if _is_texts(before.get("sensitive")) and _is_texts(each.get("sensitive")):
                merged["sensitive"] = sorted({*before["sensitive"], *each["sensitive"]})
    return merged


def merged_rules(*found: Json) -> Json:
    """Return rules in which later ones are stronger; None if there are none. A rule replaces those of its name."""
    merged: dict[str, Json] | None = None
    for each in found:
        if isinstance(each, dict):
            before = merged or {}
            merged = before | {field: value for field, value in each.items() if value is not None}
            for field in _MODES_OF_RULES:
                old, new = ([rule for rule in _rules(part, field)] for part in (before, each))
                names = {str(rule.get("name")) for rule in new}
                if old:
                    merged[field] = [rule for rule in old if str(rule.get("name")) not in names] + new
    return merged


def _rules(rule_set: dict[str, Json], field: str) -> list[dict[str, Json]]:
    found = rule_set.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def property_of(metadata: Json, name: str) -> Json:
    """Return a property of metadata; None if it has none of this name."""
    properties = metadata.get("properties") if isinstance(metadata, dict) else None
    return properties.get(name) if isinstance(properties, dict) else None


def reserved_fields(metadata: Json) -> set[str]:
    """Return the names of fields that metadata reserves."""
    found = property_of(metadata, RESERVED_FIELDS)
    return {each.strip() for each in found.split(",")} - {""} if isinstance(found, str) else set()


def numbered(metadata: Json, version: int | None) -> Json:
    """Return metadata whose property `confluent:version` is this number; without the property if it is None."""
    given = metadata.get("properties") if isinstance(metadata, dict) else None
    properties = dict(given) if isinstance(given, dict) else {}
    properties.pop(NUMBER_OF_VERSION, None)
    rest = {name: each for name, each in metadata.items() if name != "properties"} if isinstance(metadata, dict) else {}
    if version is not None:
        properties[NUMBER_OF_VERSION] = str(version)
    return rest | ({"properties": properties} if properties else {})
