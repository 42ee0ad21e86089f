"""A replacement for the Kafka installation whose scripts the tests call, under `$KAFKA_PATH`.

`bin/kafka-topics.sh` and `bin/kafka-acls.sh` are our own programs, so that no JVM starts for a topic. `bin/kafka-run-class.sh`
and `libs` need Apache Kafka's jars and a JDK; without them the tests that start a Java client are not run.
"""

import contextlib
import shlex
import shutil
import sys
from pathlib import Path

from ..support.brokers.apache_kafka import jars
from ..support.suite import NotRunError

HERE = Path(__file__).parent
PROGRAMS = {
    "kafka-topics.sh": HERE / "kafka_topics.py",
    "kafka-acls.sh": HERE.parent / "support" / "clients" / "kafka_acls.py",
}


def make(folder: Path) -> Path:
    scripts = folder / "bin"
    scripts.mkdir(parents=True)
    for script, program in PROGRAMS.items():
        write(scripts / script, f'exec {shlex.join([sys.executable, str(program)])} "$@"')
    with contextlib.suppress(NotRunError):
        if shutil.which("javac"):
            (folder / "libs").symlink_to(jars(), target_is_directory=True)
            write(scripts / "kafka-run-class.sh", 'exec java -Xmx128m -cp "$CLASSPATH:$KAFKA_PATH/libs/*" "$@"')
    return folder


def has_java(folder: Path) -> bool:
    return (folder / "libs").exists()


def write(script: Path, line: str) -> None:
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
