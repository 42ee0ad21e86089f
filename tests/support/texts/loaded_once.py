"""Modules that must be loaded before pytest runs in pytest.

pytest unloads the modules that an inner run has loaded. A second import creates other classes of the same names, and extension
modules do not support it.
"""

from __future__ import annotations

import functools
import importlib

import ottla

CLIENTS = ("aiokafka", "confluent_kafka", "kafka")


@functools.cache
def load_clients_and_tls() -> None:
    """Load the modules once per process, before the fixture `pytester` notes which modules stay."""
    for name in CLIENTS:
        importlib.import_module(name)
    importlib.import_module("ottla.server.testing.run")
    with ottla.Broker(tls=True, users={"alice": "secret"}) as broker:
        broker.produce("t", "v")
    with ottla.Broker(mechanism="OAUTHBEARER") as broker:
        broker.produce("t", "v")
