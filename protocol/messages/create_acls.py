"""CreateAcls (key 30, versions 1–3): add access control entries (KIP-140).

1 adds patterns of names (KIP-290), 2 flexible encoding, 3 entries for users (KIP-373).
"""

from dataclasses import dataclass

from ..wire import Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest:
    creations: tuple[AclCreation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()
