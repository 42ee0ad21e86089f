"""What all connections share: memory for requests and answers, workers for large ones, places for answers."""

from __future__ import annotations

import logging

from ..config.broker_config import BrokerConfig
from ..runtime.collector import Collector
from ..runtime.floods import Floods
from ..runtime.nursery import open_plain_nursery
from .answer_places import AnswerPlaces
from .authentication.counts import Authentications
from .large_requests import LargeRequests, Learning
from .ready import ReadyConnections
from .request_memory import RequestMemory
from .unsent_answers import UnsentAnswers

log = logging.getLogger("ottla.connection")

# What `queued.max.request.bytes=-1` (no limit) of Kafka means here; see docs/differences.md.
DEFAULT_REQUEST_MEMORY_BYTES = 512 << 20


class Shares:
    """Each address, and each connection, has its share of every part."""

    def __init__(self, config: BrokerConfig, collector: Collector) -> None:
        limit_bytes = config.queued_max_request_bytes
        if limit_bytes <= 0:
            limit_bytes = DEFAULT_REQUEST_MEMORY_BYTES
        self.request_max_bytes = config.socket_request_max_bytes
        self.request_memory = RequestMemory(limit_bytes)
        self.unsent_answers = UnsentAnswers(limit_bytes)
        self.large_requests = LargeRequests(collector)
        self.learning = Learning()
        self.answer_places = AnswerPlaces()
        self.ready = ReadyConnections()
        self.authentications = Authentications()
        self.closings = Floods(log)
        """Lines on connections that end as their clients have done something wrong."""

    async def run(self) -> None:
        """See to it, until cancelled, that nobody keeps a share that others wait for, and that small requests are answered at once."""
        async with open_plain_nursery() as nursery:
            for each in (
                self.request_memory,
                self.unsent_answers,
                self.large_requests.living,
                self.answer_places,
                self.ready,
            ):
                nursery.start_soon(each.run)
