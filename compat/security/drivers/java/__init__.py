"""The start of the Java driver: one source file, which `java` compiles as it starts."""

import shutil
from pathlib import Path

from ....support.brokers.apache_kafka import LOG4J, jars
from ....support.suite import NotRunError

SOURCE = Path(__file__).with_name("Driver.java")


def command(version: str) -> list[str]:
    """Return the command line with the clients of this release. NotRunError without a JDK."""
    if not SOURCE.exists() or not shutil.which("javac"):
        raise NotRunError("a JDK, and Maven once")
    logging = f"-Dlog4j2.configurationFile={LOG4J}"
    # It runs for a minute: thorough compilation does not pay, and the driver is compiled at each start.
    brisk = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", "-Xmx256m", *brisk, "-Djava.awt.headless=true", logging, "-cp", f"{jars(version)}/*", str(SOURCE)]
