"""Logger levels that clients set."""

from __future__ import annotations

import logging
from itertools import permutations

import pytest

from ottla.server.runtime.loggers import Loggers


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_the_last_broker_that_changed_a_logger_restores_it(order: tuple[int, ...]) -> None:
    logger = logging.getLogger("ottla.tests.levels")
    logger.setLevel(logging.INFO)
    brokers = [Loggers() for _ in range(3)]
    for broker, level in zip(brokers, ("DEBUG", "ERROR", "FATAL"), strict=True):
        broker.set(logger.name, level)
    brokers[0].set(logger.name, "WARN")
    for place in order[:2]:
        brokers[place].restore()
        assert logger.level == logging.WARNING
    brokers[order[2]].restore()
    assert logger.level == logging.INFO
    brokers[order[2]].restore()
    assert logger.level == logging.INFO
