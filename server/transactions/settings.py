"""The options of transaction coordination, under the names of the broker options they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..config.broker_config import BrokerConfig

# Time until a marker is tried again that could not be written, because the partition has no leader or its disk failed.
MARKER_RETRY_MS = 500
# Number of markers that are written in one piece of work: some milliseconds.
MARKERS_A_PIECE = 50
# Number of transactional ids that are checked, and forgotten, in one piece of work.
IDS_A_PIECE = 512


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Options of the transaction coordinator, as of the broker's start."""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_two_phase_commit_enable: bool
    transactional_id_expiration_ms: int

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Self:
        """Take the coordinator's options from the broker's."""
        return cls(
            transaction_abort_timed_out_transaction_cleanup_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transaction_remove_expired_transaction_cleanup_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        )
