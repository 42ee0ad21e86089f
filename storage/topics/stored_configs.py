"""Options of topics as a catalog has them, for readers of data directories without a broker."""

from __future__ import annotations

from .catalog_file import CLUSTER_DEFAULT, CatalogState
from .config import TOPIC_OPTIONS


def broker_configs_in(catalog: CatalogState | None, node_id: int | None) -> dict[str, str]:
    """Return the broker options set at run time, for all nodes and for this one, whose values apply to logs."""
    if catalog is None:
        return {}
    own = {} if node_id is None else catalog.broker_configs.get(str(node_id), {})
    return {**catalog.broker_configs.get(CLUSTER_DEFAULT, {}), **own}


def topic_configs_in(catalog: CatalogState | None, node_id: int | None, topic: str) -> dict[str, str]:
    """Return the options of a topic: broker options that are defaults of them, then the topic's own."""
    broker_configs = broker_configs_in(catalog, node_id)
    found: dict[str, str] = {}
    for option in TOPIC_OPTIONS.values():
        for synonym in reversed(option.synonyms):
            if (text := broker_configs.get(synonym.name)) is not None:
                found[option.name] = text if synonym.factor == 1 else str(int(text) * synonym.factor)
    if catalog is not None and (entry := catalog.topics.get(topic)) is not None:
        found |= entry.configs
    return found
