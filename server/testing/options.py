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
    Setting(
        "external", "use the broker that runs at HOST:PORT[,HOST:PORT...]; tests of kafka_broker are skipped", "ADDRESS"
    ),
    Setting("reset", "empty kafka_broker before each 'test' or 'module' that uses it, or 'never' (default)", "WHEN"),
    Setting("nodes", "how many broker ids kafka_broker plays, each on a port of its own (default: 1)", "N"),
    Setting("profile", "'dev' (quick reactions, the default) or 'kafka' (Apache Kafka's defaults)", "NAME"),
    Setting("emulate", "the release of Apache Kafka whose API versions are offered", "RELEASE"),
    Setting("tls", "kafka_broker speaks TLS; kafka_broker.tls has what clients take"),
    Setting("option", "a broker option of kafka_broker; may be given more than once", "NAME=VALUE", is_list=True),
)
