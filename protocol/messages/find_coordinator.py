"""FindCoordinator (key 10, versions 0–6): the broker that coordinates a group (key type 0), a transactional id (1) or a
share group's partition (2).

1 adds the key type (KIP-98), 3 flexible encoding, 4 several keys at once (KIP-699), 5 TRANSACTION_ABORTABLE
(KIP-890), 6 share groups (KIP-932).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int16, Int32, String, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    key: Annotated[String, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[tuple[String, ...], since(4)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[String | None, since(1), until(3)] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[String, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()
