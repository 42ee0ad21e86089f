"""Check of this machine for the requirements of `ottla-spark`, before Spark's JVM starts.

A JVM takes ten seconds to start. It reports a missing jar after it has downloaded all others, and in hundreds of lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..apply.packages import PACKAGES, advice, install
from ..errors import UsageError, check_the_extra
from .java import suitable_java

MODULES = ("pyspark", "pyarrow", "pandas", "numpy")
"""Modules of the extra `spark`."""
_OTHER_PLACES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_HOME")
"""Variables with which Spark, its options and its jars may be elsewhere. Only the session knows its jars then."""
_OTHER_OPTIONS = ("spark.jars", "spark.driver.extraClassPath")


def check_requirements(needed: Sequence[str], confs: Mapping[str, str]) -> None:
    """Check everything that a command needs of Python, Java and jars.

    Args:
        needed: Sources (`kafka`, `ottla`), table formats, and formats of keys and values.
        confs: Spark's options of the command line.

    Raises:
        UsageError: Something is missing. The text names all of it, with the remedies.
    """
    if _has_session():  # its jars are checked in it
        check_the_extra()
    elif missing := missing_requirements(needed, confs):
        raise UsageError("; ".join(missing))


def missing_requirements(
    needed: Sequence[str], confs: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Return a line for each kind of missing requirement, with its remedy. Jars that only Spark can find are not judged."""
    found = []
    jars = [name for name in needed if name in PACKAGES]
    format_name = next((name for name in jars if PACKAGES[name].lines), "")
    spark = pyspark_version()
    if gone := [name for name in MODULES if find_spec(name) is None]:
        found.append(f"{', '.join(gone)} {'are' if len(gone) > 1 else 'is'} missing: {install(format_name)}")
    if spark is None:
        spark = PACKAGES[format_name].spark if format_name else "VERSION"
    elif "PYSPARK_GATEWAY_PORT" in environment:
        return found
    if "delta-rs" in needed and find_spec("deltalake") is None:
        found.append("deltalake is missing: pip install 'ottla[delta-rs]'")
    if spark.startswith("3."):
        return [*found, f"PySpark: expected 4.0 or newer, found {spark}: pip install 'pyspark>=4,<5'"]
    given = _given_jars(confs, environment)
    if given is not None and (
        jars := [name for name in jars if not any(PACKAGES[name].fits(each, spark) for each in given)]
    ):
        found.append(advice(jars, spark, confs.get("spark.jars.packages", "").split(",")))
    try:
        suitable_java(environment)
    except UsageError as error:
        found.append(str(error))
    return found


def pyspark_version() -> str | None:
    """Return the version of the installed PySpark; None if there is none."""
    with suppress(PackageNotFoundError):
        return version("pyspark") if find_spec("pyspark") is not None else None
    return None


def _has_session() -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _given_jars(confs: Mapping[str, str], environment: Mapping[str, str]) -> list[str] | None:
    """Return names of the jars that Spark will have; None if jars may also come from a place that only Spark can read."""
    own = find_spec("pyspark")
    home = None if own is None or own.origin is None else Path(own.origin).parent
    packages = [each for each in confs.get("spark.jars.packages", "").split(",") if each]
    if (
        any(name in environment for name in _OTHER_PLACES)
        or any(name in confs for name in _OTHER_OPTIONS)
        or (home is not None and (home / "conf" / "spark-defaults.conf").exists())
        or any(not any(jar.is_among([each]) for jar in PACKAGES.values()) for each in packages)
    ):
        return None
    return packages + ([] if home is None else [each.name for each in (home / "jars").glob("*.jar")])
