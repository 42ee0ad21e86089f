"""Apache Kafka in its own process, from its released jars: the baseline that Ottla is compared with.

VERSION is the release that Ottla follows; `compat.apache_kafka.release` compares it with another one.

The jars (54 MB) are fetched once by Maven into `~/.cache/ottla-compat`, or `$OTTLA_COMPAT_CACHE`.
One node, broker and KRaft controller in one process, node id 0 as Ottla's default.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from ..clients.raw import has_brokers
from ..suite import NotRunError
from .process import START_TIMEOUT_S, BrokerProcess, free_port

VERSION, METADATA_VERSION = "4.4.0", "4.4-IV2"
HERE = Path(__file__).parent
POM = HERE / "apache_kafka.pom.xml"
LOG4J = HERE / "log4j2.yaml"
P = ParamSpec("P")
T = TypeVar("T")


def cache_dir() -> Path:
    """Return the folder that keeps downloads between runs."""
    return Path(os.environ.get("OTTLA_COMPAT_CACHE", Path.home() / ".cache" / "ottla-compat"))


def fetches(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Wrap a function that fetches into the cache, so that only one process at a time runs it under this name."""

    def marked(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def alone(*arguments: P.args, **options: P.kwargs) -> T:
            cache_dir().mkdir(parents=True, exist_ok=True)
            with open(cache_dir() / f"{name}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return function(*arguments, **options)

        return alone

    return marked


@fetches("maven")
def jars(version: str = VERSION, pom: Path = POM) -> Path:
    """Return the folder of the jars that a POM lists, fetched now if need be. NotRunError without java or Maven."""
    folder = cache_dir() / f"{pom.name.removesuffix('.pom.xml').replace('_', '-')}-{version}"
    if not shutil.which("java"):
        raise NotRunError("java and Maven")
    if (folder / "complete").exists():
        return folder
    if not shutil.which("mvn"):
        raise NotRunError("java and Maven")
    folder.mkdir(parents=True, exist_ok=True)
    fetch = ["mvn", "-B", "-q", "-f", str(pom), f"-Dkafka.version={version}", "dependency:copy-dependencies"]
    fetch.append(f"-DoutputDirectory={folder}")
    done = subprocess.run(fetch, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise NotRunError(f"Maven with access to Maven Central ({done.stdout.strip().splitlines()[:1]})")
    (folder / "complete").touch()
    return folder


def java(
    main_class: str, *arguments: str, heap: str = "256m", optimized: bool = False, version: str = VERSION
) -> list[str]:
    """Return a command line that runs one class of Apache Kafka.

    Args:
        heap: The most that the JVM's heap may have, in the JVM's spelling.
        optimized: With the JVM's second compiler, which doubles the CPU time of a start.
    """
    return [
        "java",
        *([] if optimized else ["-XX:TieredStopAtLevel=1"]),
        f"-Xmx{heap}",
        *([f"-Xms{heap}"] if main_class == "kafka.Kafka" else []),
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-Djava.awt.headless=true",
        "-cp",
        f"{jars(version)}/*",
        f"-Dlog4j2.configurationFile={LOG4J}",
        main_class,
        *arguments,
    ]


def tool(main_class: str, *arguments: str, version: str = VERSION) -> subprocess.CompletedProcess[str]:
    """Run one of Apache Kafka's tools to its end; output is captured."""
    return subprocess.run(java(main_class, *arguments, version=version), capture_output=True, text=True, check=False)


def metadata_version(version: str) -> str:
    """Return the newest `metadata.version` of a release, as its storage tool names it."""
    if version == VERSION:
        return METADATA_VERSION
    listed = tool("kafka.tools.StorageTool", "version-mapping", version=version).stdout
    found = re.search(r"metadata\.version=\d+ \((\S+)\)", listed)
    if found is None:
        raise RuntimeError(f"no metadata.version in the storage tool's answer: {listed}")
    return found[1]


class ApacheKafkaProcess(BrokerProcess):
    """Apache Kafka on a temporary data directory and free ports.

    The first start formats the directory, with `features` finalized at these levels instead of the newest.
    `overrides` are lines of server.properties. A suite that measures the broker names its `heap`, and so
    gets the JVM's second compiler as well.
    """

    kind = "apache-kafka"

    def __init__(
        self,
        *,
        data: Path | None = None,
        overrides: dict[str, str] | None = None,
        keep: bool = False,
        heap: str | None = None,
        features: dict[str, int] | None = None,
        version: str = VERSION,
    ) -> None:
        super().__init__(data=data, overrides=overrides, keep=keep)
        self.heap = heap
        self.version = version
        self.features = features or {}
        self.addresses = [f"127.0.0.1:{free_port()}"]
        self.controller_port = free_port()

    def properties(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "broker.session.timeout.ms": "4000",  # after kill -9 it may register again only when this has passed
            **self.overrides,
        }

    def command(self) -> list[str]:
        config = self.work / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self.properties().items()))
        if not (self.data / "meta.properties").exists():
            cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            features = [f"--feature={name}={level}" for name, level in self.features.items()]
            format_it = ("format", f"--cluster-id={cluster_id}", "-c", str(config), *features)
            done = tool("kafka.tools.StorageTool", *format_it, version=self.version)
            if done.returncode:
                raise RuntimeError(f"formatting failed:\n{done.stdout}{done.stderr}")
        optimized = self.heap is not None
        return java("kafka.Kafka", str(config), heap=self.heap or "512m", optimized=optimized, version=self.version)

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            if has_brokers("127.0.0.1", self.port):
                return
            time.sleep(0.02)
        raise RuntimeError(f"Apache Kafka did not come up:\n{self.output_tail()}")
