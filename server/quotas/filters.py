"""Filters of DescribeClientQuotas, with Apache Kafka's messages (its ClientQuotasImage)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from .entities import CLIENT_ID, IP, TYPES, USER, Entity

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
NAME_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Component:
    """Condition for one entity type: the name `match`, the default name, or any of both."""

    entity_type: str
    match_type: int
    match: str | None


@dataclass(slots=True)
class EntityFilter:
    """Filter for entities that meet all conditions; if strict, entities with further parts do not match."""

    strict: bool
    exact: dict[str, str | None] = field(default_factory=dict)
    specified: set[str] = field(default_factory=set)

    def takes(self, entity: Entity) -> bool:
        if self.strict and len(entity.parts) != len(self.exact) + len(self.specified):
            return False
        names = entity.names
        return all(kind in names and names[kind] == name for kind, name in self.exact.items()) and all(
            kind in names for kind in self.specified
        )


def filter_of(components: Sequence[Component], strict: bool) -> EntityFilter:
    """Make the filter.

    Raises:
        KafkaError: INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown entity type.
    """
    found = EntityFilter(strict)
    for each in components:
        kind = each.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in found.exact or kind in found.specified:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind[:NAME_CHARS_MAX]}")
        match each.match_type:
            case 0:
                if each.match is None:
                    raise _contradiction("EXACT, but set match string to null.")
                found.exact[kind] = each.match
            case 1:
                if each.match is not None:
                    raise _contradiction("DEFAULT, but also specified a match string.")
                found.exact[kind] = None
            case 2:
                if each.match is not None:
                    raise _contradiction("SPECIFIED, but also specified a match string.")
                found.specified.add(kind)
            case unknown:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {unknown}")
    kinds = {*found.exact, *found.specified}
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component.",
        )
    return found


def _contradiction(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{what}")
