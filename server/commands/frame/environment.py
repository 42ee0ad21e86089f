"""Broker options from environment variables, named as the official image of Apache Kafka names them.

`KAFKA_LOG_RETENTION_MS` is log.retention.ms: `_` stands for a dot, `__` for `_`, `___` for `-`. A value is written as in a
properties file, where the image puts it as it is: `\\n` is the end of a line. What the image's scripts take for the JVM and its
logging (`KAFKA_OPTS` and the like) is none of ours; CLUSTER_ID is the id of a new data directory's cluster.

Bitnami's image, which was withdrawn, has the same names with another prefix, `KAFKA_CFG_LOG_RETENTION_MS`: where both are there, the
shorter one counts. Its KAFKA_KRAFT_CLUSTER_ID is CLUSTER_ID. What it has of its own for one process is taken silently; its users,
passwords and certificates are not, and a line says so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....storage.topics.properties import parse_properties
from ...config.options.known_options import BROKER_OPTIONS, find_option
from ...config.options.security_options import HANDED_ON

PREFIX = "KAFKA_"
BITNAMI_PREFIX = "KAFKA_CFG_"
CLUSTER_IDS = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
"""The id of a new data directory's cluster; the first that is set counts."""

FOR_THE_JVM = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)

OF_BITNAMI = frozenset(
    {
        "KAFKA_CLIENT_LISTENER_NAME",
        "KAFKA_MOUNTED_CONF_DIR",
        "KAFKA_SKIP_KRAFT_STORAGE_INIT",
        "KAFKA_ZOOKEEPER_PROTOCOL",
        "KAFKA_ZOOKEEPER_TLS_TYPE",
        "KAFKA_ZOOKEEPER_TLS_VERIFY_HOSTNAME",
    }
)
"""Variables of its scripts, for which there is nothing to do. ALLOW_PLAINTEXT_LISTENER and BITNAMI_DEBUG are not looked at."""

_SERVICE_LINK = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
_CHARS_LIKE = 100
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)[\n\r]")
"""One that no backslash stands before; two are none, but a backslash of the value."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says; its repr shows no values, some of which are secrets."""

    options: dict[str, str] = field(default_factory=dict, repr=False)
    variables: tuple[str, ...] = ()
    """Those that were taken, in order."""
    warnings: tuple[str, ...] = ()
    """One line for each that no option has the name of."""
    cluster_id: str | None = None


def read_environment(variables: Mapping[str, str]) -> Environment:
    """The broker options among these variables."""
    options, taken, warnings = {}, [], []
    for variable in sorted(variables, key=lambda name: (not name.startswith(BITNAMI_PREFIX), name)):
        if not variable.startswith(PREFIX) or variable in FOR_THE_JVM | OF_BITNAMI or variable in CLUSTER_IDS:
            continue
        name = option_name(variable)
        if find_option(name) is None and name not in HANDED_ON:
            if is_service_link(variable, variables[variable], PREFIX):
                continue
            from difflib import get_close_matches  # No start shall wait for it.

            close = get_close_matches(name[:_CHARS_LIKE], BROKER_OPTIONS, n=1)
            hint = f"; did you mean {variable_name(close[0])} ({close[0]})?" if close else ""
            told = f"option {name} not found" if name else "no option name"
            warnings.append(f"environment variable {variable}: {told}, ignored{hint}")
            continue
        options[name] = _value(variable, variables[variable])
        taken.append(variable)
    cluster_id = next((variables[name] for name in CLUSTER_IDS if variables.get(name)), None)
    return Environment(options, tuple(taken), tuple(warnings), cluster_id)


def is_service_link(variable: str, value: str, prefix: str) -> bool:
    """Whether Kubernetes may have made it, as for each service: where one is called `kafka`, KAFKA_PORT is tcp://10.0.0.1:9092."""
    name = variable.removeprefix(prefix)
    return _SERVICE_LINK.fullmatch(name) is not None and (
        not name.endswith("PORT") or "SERVICE" in name or "://" in value
    )


def option_name(variable: str) -> str:
    """`KAFKA_A_B__C___D` is a.b_c-d; of more underscores three and three are taken together, as in the image."""
    name = variable.removeprefix(BITNAMI_PREFIX if variable.startswith(BITNAMI_PREFIX) else PREFIX)
    dotted = name.lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def _value(variable: str, text: str) -> str:
    """What a properties file has of it; lines of a variable, which would be lines of that file, stay together."""
    joined = _LINE_END.sub(_as_escape, text.replace("\r\n", "\n"))
    return parse_properties(f"{variable}={joined}").get(variable, "")


def _as_escape(found: re.Match[str]) -> str:
    return found[1] + r"\n"


def variable_name(option: str) -> str:
    """The variable that sets an option."""
    return PREFIX + option.replace("_", "__").replace("-", "___").replace(".", "_").upper()
