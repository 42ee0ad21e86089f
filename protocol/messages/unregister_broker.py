"""UnregisterBroker (key 64, version 0): a broker id leaves the cluster for good (KIP-631)."""

from dataclasses import dataclass

from ..wire import Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
