"""`ottla-spark doctor`: versions on this machine, and missing requirements of each command. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from ..errors import UsageError
from ..spark.on_executors import found_here
from .check import mismatches_of
from .java import suitable_java
from .requirements import missing_requirements

SHOWN = ("python", "java", "ottla", "kernel", "pyspark", "pyarrow", "pandas", "numpy")
ON_SPARK = "plan, compact, verify, snapshot, check"
COMMANDS = {
    ON_SPARK: (),
    "verify --bootstrap": ("kafka",),
    "spark.read.format('ottla'), apply --data-dir": ("ottla",),
    "apply --bootstrap, to delta-rs": ("delta-rs", "kafka"),
    "apply --bootstrap, to delta": ("delta", "kafka"),
    "apply --bootstrap, to iceberg": ("iceberg", "kafka"),
    "apply, of avro": ("avro",),
    "apply, of protobuf": ("protobuf",),
}
"""Commands, and the names of `PACKAGES` that they need."""
WITHOUT_JAVA = "install, restore, status, read; with --master none also plan, compact, verify, snapshot"


@dataclass(frozen=True)
class DoctorReport:
    """Versions on this machine, and missing requirements.

    missing: Lines with the remedy, for each group of commands.
    outdated: Lines on libraries that are too old, or cannot be imported.
    """

    versions: dict[str, str]
    missing: dict[str, list[str]]
    outdated: list[str]

    @property
    def can_start(self) -> bool:
        """Whether Spark can start."""
        return not self.missing[ON_SPARK] and not self.outdated

    def __str__(self) -> str:
        width = max(map(len, self.missing))
        return "\n".join(
            [
                *(f"{name:9}{text}" for name, text in self.versions.items()),
                *self.outdated,
                "",
                *(f"{name:{width}}  {'; '.join(lacks) or 'ready'}" for name, lacks in self.missing.items()),
                f"\nWithout Java and PySpark: {WITHOUT_JAVA}",
            ]
        )


def examine(confs: Mapping[str, str]) -> DoctorReport:
    """Look at this machine.

    Args:
        confs: Spark's options, whose jars count as available.
    """
    here = found_here([], is_executor=False)
    try:
        java = suitable_java()
        here["java"] = f"{java.version} ({java.home})"
    except UsageError:
        here["java"] = "none"
    here["python"] += f" ({here['path']})"
    missing = {name: missing_requirements(needed, confs) for name, needed in COMMANDS.items()}
    missing["restore"] = (
        [] if find_spec("confluent_kafka") is not None else ["a producer is missing: pip install confluent-kafka"]
    )
    return DoctorReport(
        {name: here[name] for name in SHOWN},  # type: ignore[literal-required]
        missing,
        [each for each in mismatches_of(here, []) if ": none" not in each],
    )
