"""Leases on a running broker's partitions, as its admin listener would hold them."""

from __future__ import annotations

from ottla.server.broker.broker import Broker
from ottla.server.cleaning.leases import CleaningLeases


def leases_of(broker: Broker) -> CleaningLeases:
    services = broker.services
    return CleaningLeases(services.logs.logs, services.cleaning, broker.waits, broker.clock, broker.rng)
