"""UnregisterController (key 94, version 0): a controller id leaves the cluster for good."""

from dataclasses import dataclass

from ..wire import Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerRequest:
    controller_id: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
