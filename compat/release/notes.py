"""The changes of one version, as CHANGELOG.md has them."""

import re


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version. ValueError without one."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has no section '## {version}'")
    return found[1].strip() + "\n"


def is_unreleased(changelog: str, version: str) -> bool:
    return re.search(rf"^## {re.escape(version)} \(unreleased\)", changelog, re.MULTILINE) is not None
