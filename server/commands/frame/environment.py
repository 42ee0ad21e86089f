"""Broker options from environment variables, named as the official image of Apache Kafka names them.

`KAFKA_LOG_RETENTION_MS` is log.retention.ms: `_` stands for a dot, `__` for `_`, `___` for `-`. What the image's scripts take
for the JVM and its logging (`KAFKA_OPTS` and the like) is none of ours; CLUSTER_ID is the id of a new data directory's cluster.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...config.authorization import HANDED_ON
from ...config.broker_config import BROKER_OPTIONS, find_option

PREFIX = "KAFKA_"
CLUSTER_ID = "CLUSTER_ID"

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

_CHARS_LIKE = 100
_STANDS_FOR = {1: ".", 2: "_", 3: "-"}


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
    for variable in sorted(variables):
        if not variable.startswith(PREFIX) or variable in FOR_THE_JVM:
            continue
        name = option_name(variable)
        if find_option(name) is None and name not in HANDED_ON:
            close = difflib.get_close_matches(name[:_CHARS_LIKE], BROKER_OPTIONS, n=1)
            hint = f"; did you mean {variable_name(close[0])} ({close[0]})?" if close else ""
            warnings.append(f"environment variable {variable}: there is no option {name}, ignored{hint}")
            continue
        options[name] = variables[variable]
        taken.append(variable)
    return Environment(options, tuple(taken), tuple(warnings), variables.get(CLUSTER_ID) or None)


def option_name(variable: str) -> str:
    """`KAFKA_A_B__C___D` is a.b_c-d; four underscores and more stay as they are."""
    return re.sub("_+", lambda run: _STANDS_FOR.get(len(run[0]), run[0]), variable.removeprefix(PREFIX).lower())


def variable_name(option: str) -> str:
    """The variable that sets an option."""
    return PREFIX + option.replace("_", "__").replace("-", "___").replace(".", "_").upper()
