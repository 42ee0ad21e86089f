"""ListTransactions (key 66, versions 0–2): the transactional ids that this broker coordinates (KIP-664).

1 adds a filter by duration (KIP-994), 2 one by a pattern of the id (KIP-1152).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsRequest:
    state_filters: tuple[String, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[String | None, since(2)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[String, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()
