"""The broker's own topics; `BrokerConfig.internal_topic` says what they are created with."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Names that clients may read and never write."""

TAKE_NO_TRANSACTIONS = INTERNAL_TOPICS - {OFFSETS_TOPIC}
"""Where a marker has no meaning: of the broker's own topics, transactions commit offsets alone."""
