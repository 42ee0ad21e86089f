"""One JVM that runs the tools: a JVM a command would take a second or two for each."""

import re
import subprocess
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import NamedTuple, Self

from ...support.brokers.apache_kafka import VERSION, jars
from ..suite.runner import compile_java

HERE = Path(__file__).parent


TOOLS = re.compile(r"(org/apache/)?kafka/(admin|tools)/(?!.*internals)[\w/]+\.class")


class Ended(NamedTuple):
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str


def main_classes(folder: Path) -> dict[str, str]:
    """Return the full name of each tool's main class by its name without the package, which changes between releases.

    A class counts if its constant pool has the name and the type of a main method.
    """
    found = {}
    for jar in (*folder.glob("kafka_2.13-*.jar"), *folder.glob("kafka-tools-[0-9]*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in filter(TOOLS.fullmatch, archive.namelist()):
                data = archive.read(name)
                if b"\x01\x00\x04main" in data and b"([Ljava/lang/String;)V" in data:
                    full = name.removesuffix(".class").replace("/", ".")
                    found[full.rpartition(".")[2]] = full
    return found


class Tools:
    """A context manager; entering starts the JVM. NotRunError without a JDK, Maven or the jars."""

    def __init__(self, version: str = VERSION) -> None:
        self._jars = jars(version)
        self.main_classes = main_classes(self._jars)

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="tools-")
        compile_java([HERE / "Tools.java"], self._jars, Path(self._folder.name))
        command = [
            *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"),
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
            *("-cp", f"{self._folder.name}:{self._jars}/*", "Tools"),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def run(self, main_class: str, arguments: Sequence[str], stdin: str = "") -> Ended:
        """Run one command to its end; the class is named without its package. RuntimeError when the JVM has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        words = (b64encode(word.encode()).decode() for word in (stdin, self.main_classes[main_class], *arguments))
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split(" ")
        if len(answer) < 4:
            raise RuntimeError("the JVM of the tools has ended")
        return Ended(int(answer[0]), b64decode(answer[1]).decode(), b64decode(answer[2]).decode())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
