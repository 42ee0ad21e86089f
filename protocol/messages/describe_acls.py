"""DescribeAcls (key 29, versions 1–3): the access control entries that a filter matches (KIP-140).

1 adds patterns of names (KIP-290), 2 flexible encoding, 3 entries for users (KIP-373).
"""

from dataclasses import dataclass

from ..wire import Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest:
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDescription:
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()
