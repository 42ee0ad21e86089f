"""Finalized features (KIP-584): Kafka's cluster-wide levels, which of them Ottla acts on, and which change is allowed.

At a start a level comes from a comment line of the configuration file (`# feature.NAME=LEVEL`), else from the catalog
(of a directory taken over from Apache Kafka, or after an UpdateFeatures), else it is that of a new cluster. Clients
read the levels with ApiVersions. A producer uses KIP-890's transactions from `transaction.version` 2 on, a consumer
KIP-848's protocol from `group.version` 1 on, an application of Kafka Streams KIP-1071's from `streams.version` 1 on.
`eligible.leader.replicas.version` 1 makes `min.insync.replicas` a dynamic option of all nodes
(`live_config.settled_min_isr`). `metadata.version` has an effect at three levels: delegation tokens from 14 on, networks as
hosts of ACLs from 32 on, UnregisterController from 33 on. Share groups have dead letter queues from `share.version` 2
on. All else is finalized as in Apache Kafka, for clients and tools that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ...storage.topics.config import ConfigError
from .emulation import Release


class Feature(NamedTuple):
    """A feature in ApiVersions: its lowest and highest known level (both inclusive) and the finalized one; 0 is none."""

    min_level: int
    max_level: int
    level: int


SUPPORTED = {
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    "group.version": Feature(0, 1, 1),
    # The voters cannot change, as in an Apache Kafka cluster with controller.quorum.voters.
    "kraft.version": Feature(0, 1, 0),
    "metadata.version": Feature(7, 33, 33),
    "share.version": Feature(0, 2, 2),
    "streams.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}
"""Apache Kafka 4.4.0's features, at the level of a new cluster."""

METADATA_VERSIONS = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1"),
    *("3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0"),
    *("4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0"),
)
"""Names of the levels of metadata.version, from the lowest on. The last is unstable in Apache Kafka 4.4.0."""

_SINCE = {
    "eligible.leader.replicas.version": (("4.1-IV0", 1),),
    "group.version": (("4.0-IV0", 1),),
    "share.version": (("4.2-IV0", 1), ("4.4-IV0", 2)),
    "streams.version": (("4.2-IV1", 1),),
    "transaction.version": (("4.0-IV2", 2),),
}
"""Per feature: each metadata.version from which on a new cluster has a higher level, and that level; 0 before the first."""

ACTING = frozenset(
    {"eligible.leader.replicas.version", "group.version", "share.version", "streams.version", "transaction.version"}
)
"""Features whose level changes what Ottla does."""

METADATA_VERSION = "metadata.version"
SHARE_GROUPS = "share.version"
DEAD_LETTER_QUEUES = 2
"""Level of share.version from which on share groups have dead letter queues."""
_NO_LEVELS = (0, 0)
_METADATA_CHANGED = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""Levels of metadata.version that changed the metadata format: a downgrade from such a level to one below it is refused."""


class UpgradeType(IntEnum):
    """Kind of a feature update."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def refusal(features: Mapping[str, Feature], controller_id: int, name: str, level: int, kind: int) -> str | None:
    """Return why a feature may not have this level after an update of this kind (an UpgradeType); None if it may.

    The texts are Apache Kafka's; `kafka-features` shows only the part after the last colon.
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
    elif name == "kraft.version" and level < feature.level:
        reason = "Can't downgrade the version of this feature."
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if name == METADATA_VERSION and any(level < changed <= feature.level for changed in _METADATA_CHANGED):
        return f"Unsupported metadata.version downgrade from {feature.level} to {level}. " + (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if kind == UpgradeType.SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
    return None


def feature_warnings(levels: Mapping[str, int]) -> Iterator[str]:
    """Return one line for each feature whose level has no effect here.

    Raises:
        ConfigError: A known feature with an unknown level; names it and the bounds.
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
            yield f"feature.{name}: reported to clients, but has no effect in Ottla"


def check_levels(levels: Mapping[str, int], release: Release) -> None:
    """Raise ConfigError if one of these levels is above what the emulated release has."""
    for name, level in levels.items():
        _, most = release.features.get(name, _NO_LEVELS)
        if name in ACTING and level > most:
            raise ConfigError(
                f"Invalid value {level} for feature {name}: Apache Kafka {release.name}, which is emulated,"
                + (f" supports levels 0 to {most}" if most else " does not have this feature; remove it or set it to 0")
            )


def levels_of(metadata_version: str) -> dict[str, int]:
    """Return the levels of all features in a new cluster with this metadata.version, which is a name or a number.

    Raises:
        ConfigError: Unknown metadata.version.
    """
    names = METADATA_VERSIONS
    least = SUPPORTED[METADATA_VERSION].min_level
    levels = {name: level for level, name in enumerate(names, least)} | {
        str(n): n for n in range(least, least + len(names))
    }
    level = levels.get(metadata_version)
    if level is None:
        raise ConfigError(
            f"Invalid value {metadata_version} for comment line # metadata.version: must be one of {', '.join(names)}"
        )
    return {METADATA_VERSION: level} | {
        name: max((new for since, new in steps if levels[since] <= level), default=0) for name, steps in _SINCE.items()
    }


def finalized(
    given: Mapping[str, int], stored: Mapping[str, int], release: Release | None = None, *, unstable: bool = False
) -> dict[str, Feature]:
    """Return the supported features at the levels `given` with this start, else `stored` before, else those of a new cluster.

    A level above the known ones, or above those of the emulated `release`, counts as the newest; one below them counts
    as the oldest. A feature that the release does not have keeps its row, with 0 as its highest level. `unstable`
    allows one more level of metadata.version.
    """
    found = {}
    supported = SUPPORTED if release is None else _supported_by(release)
    for name, (least, most, new) in supported.items():
        if unstable and release is None and name == METADATA_VERSION:
            most += 1
        level = given.get(name, stored.get(name, new))
        found[name] = Feature(least, most, max(least, min(level, most)))
    return found


def _supported_by(release: Release) -> dict[str, Feature]:
    _, newest = release.features.get(METADATA_VERSION, _NO_LEVELS)
    new = levels_of(str(newest)) if newest else {}
    return {name: Feature(*release.features.get(name, _NO_LEVELS), new.get(name, 0)) for name in SUPPORTED}
