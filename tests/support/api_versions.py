"""Which versions of an API tests go through."""

from __future__ import annotations

from ottla.protocol.apis import Api
from support.sizes import FULL


def all_versions(api: Api) -> range:
    """Those that are not stable among them."""
    return range(api.versions[0], (api.unstable or api.versions[1]) + 1)


def seen_versions(api: Api, versions: range) -> list[int]:
    """Of these versions, in a slice the first and the last one, and the first flexible one.

    Each version's reader and writer has to be made first, which takes longer than most of what is then looked at.
    """
    flexible = next((version for version in versions if api.is_flexible(version)), versions[-1])
    return list(versions) if FULL else sorted({versions[0], flexible, versions[-1]})
