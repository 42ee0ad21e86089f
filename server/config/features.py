"""Finalized features (KIP-584): which of Kafka's cluster-wide levels Ottla acts on, and at which level it starts.

A level comes from a comment line of the configuration file (`# feature.NAME=LEVEL`), else from the catalog of a
directory taken over from Apache Kafka, else it is the newest. Clients read it with ApiVersions: a producer speaks
KIP-890's transactions from `transaction.version` 2 on, a consumer KIP-848's protocol from `group.version` 1 on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...storage.topics.config import ConfigError


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


def finalized(given: Mapping[str, int], stored: Mapping[str, int]) -> dict[str, Feature]:
    """The supported features at the levels `given` with this start, else `stored` before, else the newest.

    A stored level beyond those we know counts as the newest that we do.
    """
    found = {}
    for name, newest in SUPPORTED.items():
        level = given.get(name, stored.get(name, newest.level))
        found[name] = newest._replace(level=min(level, newest.max_level))
    return found
