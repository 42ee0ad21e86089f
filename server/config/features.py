"""Finalized features (KIP-584): Kafka's cluster-wide levels, which of them Ottla acts on, and which change is allowed.

At a start a level comes from a comment line of the configuration file (`# feature.NAME=LEVEL`), else from the catalog (of a
directory taken over from Apache Kafka, or after an UpdateFeatures), else it is that of a new cluster. Clients read it with
ApiVersions: a producer speaks KIP-890's transactions from `transaction.version` 2 on, a consumer KIP-848's protocol from
`group.version` 1 on. The others are finalized as Apache Kafka's, for clients and tools that look, and do nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ...storage.topics.config import ConfigError
from .emulation import Release


class Feature(NamedTuple):
    """A feature that ApiVersions names: the levels we know (both inclusive), and the finalized one; 0 is none."""

    min_level: int
    max_level: int
    level: int


SUPPORTED = {
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    "group.version": Feature(0, 1, 1),
    # Voters that cannot change, as where Apache Kafka is told of them by controller.quorum.voters.
    "kraft.version": Feature(0, 1, 0),
    "metadata.version": Feature(7, 30, 30),
    "share.version": Feature(0, 1, 1),
    "streams.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}
"""Apache Kafka 4.3.1's features, at the level of a new cluster."""

ACTING = frozenset({"group.version", "transaction.version"})
"""Those whose level changes what Ottla does."""

_METADATA_VERSION = "metadata.version"
_METADATA_CHANGED = (8, 11, 13, 14, 15, 17, 23, 30)
"""Levels of metadata.version that brought other metadata: what lies below one cannot be gone back to."""


class UpgradeType(IntEnum):
    """What an update may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def refusal(features: Mapping[str, Feature], controller_id: int, name: str, level: int, kind: int) -> str | None:
    """Why a feature may not have this level after an update of this kind (an UpgradeType); None where it may.

    In Apache Kafka's words, of which `kafka-features` shows what stands behind the last colon.
    """
    feature = features.get(name, Feature(0, 0, 0))
    reason: str | None = None
    if kind not in tuple(UpgradeType):
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif not feature.min_level <= level <= feature.max_level:
        reason = (
            f"Local controller {controller_id} only supports versions {feature.min_level}-{feature.max_level}"
            if name in features
            else f"Local controller {controller_id} does not support this feature."
        )
    elif name not in features:
        reason = f"Feature {name} not found."
    elif level < feature.level and kind == UpgradeType.UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade."
        )
    elif level > feature.level and kind != UpgradeType.UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif name == "kraft.version" and level:
        reason = "Ottla has no quorum of controllers whose voters could change."
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if name == _METADATA_VERSION and any(level < changed <= feature.level for changed in _METADATA_CHANGED):
        return f"Unsupported metadata.version downgrade from {feature.level} to {level}. " + (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if kind == UpgradeType.SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
    return None


def feature_warnings(levels: Mapping[str, int]) -> Iterator[str]:
    """One line for each feature whose level means nothing here.

    Raises:
        ConfigError: A level that there is not, of a feature that there is; names it and the bounds.
    """
    for name, level in levels.items():
        feature = SUPPORTED.get(name)
        if feature is None:
            yield f"feature.{name}: unknown feature, ignored"
        elif not feature.min_level <= level <= feature.max_level:
            raise ConfigError(
                f"Invalid value {level} for comment line # feature.{name}: must be a level from {feature.min_level} to"
                f" {feature.max_level}"
            )
        elif name not in ACTING:
            yield f"feature.{name}: shown to clients, not acted on by Ottla"


def check_levels(levels: Mapping[str, int], release: Release) -> None:
    """Raise ConfigError if one of these levels is beyond what the release to emulate has."""
    for name, level in levels.items():
        most = release.features.get(name, 0)
        if name in ACTING and level > most:
            raise ConfigError(
                f"Invalid value {level} for feature {name}: Apache Kafka {release.name}, which is emulated, has"
                + (f" levels from 0 to {most}" if most else " no such feature; leave it out or set it to 0")
            )


def finalized(
    given: Mapping[str, int], stored: Mapping[str, int], release: Release | None = None
) -> dict[str, Feature]:
    """The supported features at the levels `given` with this start, else `stored` before, else the newest.

    A level beyond those we know, or those of the `release` that is emulated, counts as the newest there is, one below them as
    the oldest; one that the release does not have at all keeps its row, with 0 for its highest level.
    """
    found = {}
    for name, newest in SUPPORTED.items():
        most = newest.max_level if release is None else min(newest.max_level, release.features.get(name, 0))
        least = min(newest.min_level, most)
        level = given.get(name, stored.get(name, newest.level))
        found[name] = Feature(least, most, max(least, min(level, most)))
    return found
