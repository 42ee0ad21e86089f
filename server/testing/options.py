"""The plugin's options. Loaded by every pytest run, as the plugin itself. PYTEST_DONT_REWRITE"""

from __future__ import annotations


class Setting:
    """`--kafka-NAME`, in an ini file `kafka_NAME`, in the environment `OTTLA_KAFKA_NAME`; the first that is given counts."""

    def __init__(self, name: str, help: str, metavar: str = "", *, is_list: bool = False) -> None:
        self.name = name
        self.help = help
        self.metavar = metavar
        """What its value is called; empty: it is on or off."""
        self.is_list = is_list

    @property
    def ini(self) -> str:
        return f"kafka_{self.name}"

    @property
    def flag(self) -> str:
        return f"--kafka-{self.name}"

    @property
    def variable(self) -> str:
        return f"OTTLA_KAFKA_{self.name.upper()}"


SETTINGS = (
    Setting("external", "address of a running broker to use; tests of kafka_broker are skipped", "ADDRESS"),
    Setting(
        "reset",
        "when to reset kafka_broker: before each 'test' or 'module' that uses it, or 'never' (default: never)",
        "WHEN",
    ),
    Setting("nodes", "number of broker IDs that kafka_broker simulates, each on its own port (default: 1)", "N"),
    Setting(
        "profile",
        "broker defaults: 'dev' for short delays, or 'kafka' for those of Apache Kafka (default: dev)",
        "NAME",
    ),
    Setting("emulate", "Apache Kafka release whose API versions are offered", "RELEASE"),
    Setting("tls", "serve TLS; kafka_broker.tls contains the client settings"),
    Setting("option", "broker option of kafka_broker; repeatable", "NAME=VALUE", is_list=True),
)
