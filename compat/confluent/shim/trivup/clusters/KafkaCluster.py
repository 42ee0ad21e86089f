"""Stands in for trivup, which the tests import to start Apache Kafka's own processes: those that ask for it are skipped."""

import pytest


class KafkaCluster:
    def __init__(self, **_conf: object) -> None:
        pytest.skip("trivup: a cluster of its own, with SASL")
