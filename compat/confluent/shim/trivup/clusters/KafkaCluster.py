"""A replacement of trivup, with which the tests start Apache Kafka's own processes: names a SASL listener that already runs."""

import os

import pytest


class KafkaCluster:
    def __init__(self, **conf: object) -> None:
        self._bootstrap = os.environ.get("SASL_BROKERS", "")
        if not self._bootstrap:
            pytest.skip("trivup: a cluster of its own, with SASL")
        self._mechanism = str(conf["sasl_mechanism"])
        self._user, _, self._password = str(conf["sasl_users"]).partition("=")

    def client_conf(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self._mechanism,
            "sasl.username": self._user,
            "sasl.password": self._password,
        }

    def wait_operational(self) -> None:
        pass

    def stop(self, **_: object) -> None:
        pass
