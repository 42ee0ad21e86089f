"""A replacement of trivup, with which the tests start Apache Kafka's own processes: names a broker that already runs.

Tests with SASL get its second listener, those of the schema registry its registry.
"""

import os

import pytest


class KafkaCluster:
    def __init__(self, **conf: object) -> None:
        has_login = "sasl_mechanism" in conf
        bootstrap = os.environ.get("SASL_BROKERS" if has_login else "PLAIN_BROKERS", "")
        if not bootstrap or conf.get("cp_version") == "7.0.1":
            pytest.skip("trivup: a cluster of its own, with SASL or an old release")
        self.sr = {"url": os.environ.get("SR_URL")}
        self._conf = {"bootstrap.servers": bootstrap}
        if has_login:
            user, _, password = str(conf["sasl_users"]).partition("=")
            self._conf |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": str(conf["sasl_mechanism"]),
                "sasl.username": user,
                "sasl.password": password,
            }

    def client_conf(self) -> dict[str, str]:
        return dict(self._conf)

    def wait_operational(self) -> None:
        pass

    def stop(self, **_: object) -> None:
        pass
