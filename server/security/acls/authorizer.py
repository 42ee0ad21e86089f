"""Decisions: may this principal, from this host, do that to a resource?"""

from __future__ import annotations

from typing import Protocol

from ..principal import Principal
from .kinds import Operation, ResourceType


class Authorizer(Protocol):
    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether it may."""

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it may with at least one resource of this type, be there one or not."""
