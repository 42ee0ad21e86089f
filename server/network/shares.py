"""Resources that all connections share: memory for requests and responses, workers for large ones, places for responses."""

from __future__ import annotations

import logging

from ..config.broker_config import BrokerConfig
from ..runtime.gc_policy import GcPolicy
from ..runtime.log_rate_limit import LogRateLimiter
from ..runtime.nursery import open_plain_nursery
from .authentication.counts import Authentications
from .large_requests import LargeRequests, Learning
from .ready import ReadyConnections
from .request_memory import RequestMemory
from .response_slots import ResponseSlots
from .unsent_answers import UnsentAnswers

log = logging.getLogger("ottla.connection")

# Meaning of Kafka's `queued.max.request.bytes=-1` (no limit); see docs/differences.md.
DEFAULT_REQUEST_MEMORY_BYTES = 512 << 20


class ConnectionResources:
    """Resources of all connections. Each address, and each connection, has its share of each."""

    def __init__(self, config: BrokerConfig, collector: GcPolicy) -> None:
        limit_bytes = config.queued_max_request_bytes
        if limit_bytes <= 0:
            limit_bytes = DEFAULT_REQUEST_MEMORY_BYTES
        self.request_max_bytes = config.socket_request_max_bytes
        self.request_memory = RequestMemory(limit_bytes)
        self.unsent_answers = UnsentAnswers(limit_bytes)
        self.large_requests = LargeRequests(collector)
        self.learning = Learning()
        self.response_slots = ResponseSlots()
        self.ready = ReadyConnections()
        self.authentications = Authentications()
        self.closings = LogRateLimiter(log)
        """Rate limiter for log lines on connections that are closed for a client's mistake."""

    async def run(self) -> None:
        """Run the tasks that take back unused shares while others wait, and the queue of ready connections. Until cancelled."""
        async with open_plain_nursery() as nursery:
            for each in (
                self.request_memory,
                self.unsent_answers,
                self.large_requests.living,
                self.response_slots,
                self.ready,
            ):
                nursery.start_soon(each.run)
