"""The options of transaction coordination, under the names of the broker options they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..config.broker_config import BrokerConfig

# How soon markers are tried again that a partition did not take, because it has no leader or its disk refuses.
MARKER_RETRY_MS = 500
# How many markers are written before others get their turn: some milliseconds.
MARKERS_A_PIECE = 50
# How many transactional ids are looked at, and forgotten, before others get their turn.
IDS_A_PIECE = 512


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """As they are when the broker starts."""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_two_phase_commit_enable: bool
    transactional_id_expiration_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """What a broker with these options has its transactions coordinated by."""
        return cls(
            transaction_abort_timed_out_transaction_cleanup_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transaction_remove_expired_transaction_cleanup_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        )
