"""Apache Kafka behind the launch protocol: the results of the tests with the broker that they were written for."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from ...support.brokers.apache_kafka import VERSION, cache_dir, fetches, jars
from ...support.brokers.process import free_port
from .runner import HERE, compile_java

SOURCE = HERE / "ServeKafka.java"
OPTIONS = ("-Xmx512m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
ENDED_S = 60


@fetches("serve-kafka")
def kafka_command() -> list[str]:
    """Return the command that serves Apache Kafka, made ready now if need be. NotRunError without a JDK or Maven."""
    folder = cache_dir() / f"serve-kafka-{VERSION}"
    archive = folder / "classes.jsa"
    if not archive.exists() or archive.stat().st_mtime < SOURCE.stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        compile_java([SOURCE], jars(), folder / "classes")
        subprocess.run(["jar", "cf", folder / "serve.jar", "-C", folder / "classes", "."], check=True)
        record_archive(folder, archive)
    return command(folder, f"-XX:SharedArchiveFile={archive}")


def command(folder: Path, *options: str) -> list[str]:
    # A class data archive is bound to the exact class path, so no wildcard.
    class_path = ":".join(map(str, [folder / "serve.jar", *sorted(jars().glob("*.jar"))]))
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    return ["java", *OPTIONS, *options, logging, "-cp", class_path, "ServeKafka"]


def record_archive(folder: Path, archive: Path) -> None:
    """Start and end once in good order, which leaves a class data archive: it halves every later start."""
    with tempfile.TemporaryDirectory(prefix="serve-kafka-") as data:
        config = Path(data) / "server.properties"
        broker, controller = free_port(), free_port()
        config.write_text(
            "# nodes=1\n# cluster.id=AAAAAAAAAAAAAAAAAAAAAA\n# metadata.version=4.3-IV0\n# standalone=false\n"
            f"# controllers=3000@localhost:{controller}\n# controller.listener=CONTROLLER\n"
            f"listeners=EXTERNAL://localhost:{broker}\ninter.broker.listener.name=EXTERNAL\n"
            f"listener.security.protocol.map=EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs={data}/data\n"
        )
        recording = command(folder, f"-XX:ArchiveClassesAtExit={archive}", "-Dserve.exit=true")
        serve = [*recording, "serve", "--config", str(config)]
        with open(folder / "archive.log", "wb") as log:
            process = subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"ready"):
                break
        process.stdin.close()  # not needed any more
        process.wait(ENDED_S)
