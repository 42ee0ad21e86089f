"""Finalized features (KIP-584): which of Kafka's cluster-wide levels Ottla acts on, and at which level it starts.

A level comes from a comment line of the configuration file (`# feature.NAME=LEVEL`), else from the catalog of a
directory taken over from Apache Kafka, else it is the newest. Clients read it with ApiVersions: a producer speaks
KIP-890's transactions from `transaction.version` 2 on, a consumer KIP-848's protocol from `group.version` 1 on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...storage.topics.config import ConfigError
from .emulation import Release


class Feature(NamedTuple):
    """A feature that ApiVersions names: the levels we know (both inclusive), and the finalized one; 0 is none."""

    min_level: int
    max_level: int
    level: int


SUPPORTED = {
    "group.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}
"""What Ottla acts on, at the level of a new cluster (Apache Kafka 4.3.1's ranges and defaults)."""

KNOWN_TO_KAFKA = frozenset(
    {"eligible.leader.replicas.version", "kraft.version", "metadata.version", "share.version", "streams.version"}
)


def feature_warnings(levels: Mapping[str, int]) -> Iterator[str]:
    """One line for each feature whose level means nothing here.

    Raises:
        ConfigError: A level that we do not know of a feature that we do; names it and the bounds.
    """
    for name, level in levels.items():
        feature = SUPPORTED.get(name)
        if feature is None:
            known = "known to Kafka, not acted on by Ottla" if name in KNOWN_TO_KAFKA else "unknown feature, ignored"
            yield f"feature.{name}: {known}"
        elif not feature.min_level <= level <= feature.max_level:
            raise ConfigError(
                f"Invalid value {level} for comment line # feature.{name}: must be a level from {feature.min_level} to"
                f" {feature.max_level}"
            )


def check_levels(levels: Mapping[str, int], release: Release) -> None:
    """Raise ConfigError if one of these levels is beyond what the release to emulate has."""
    for name, level in levels.items():
        most = release.features.get(name, 0)
        if name in SUPPORTED and level > most:
            raise ConfigError(
                f"Invalid value {level} for feature {name}: Apache Kafka {release.name}, which is emulated, has"
                + (f" levels from 0 to {most}" if most else " no such feature; leave it out or set it to 0")
            )


def finalized(
    given: Mapping[str, int], stored: Mapping[str, int], release: Release | None = None
) -> dict[str, Feature]:
    """The supported features at the levels `given` with this start, else `stored` before, else the newest.

    A level beyond those we know, or those of the `release` that is emulated, counts as the newest there is; one that the
    release does not have at all keeps its row, with 0 for its highest level.
    """
    found = {}
    for name, newest in SUPPORTED.items():
        most = newest.max_level if release is None else min(newest.max_level, release.features.get(name, 0))
        level = given.get(name, stored.get(name, newest.level))
        found[name] = Feature(min(newest.min_level, most), most, min(level, most))
    return found
