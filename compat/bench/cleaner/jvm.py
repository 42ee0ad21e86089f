"""Apache Kafka's own cleaner in a JVM of its own: `CleanPasses.java` is compiled now and runs one pass at a time."""

import contextlib
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from ...support.brokers.apache_kafka import jars
from ...support.suite import NotRunError
from .generate import CONFIG
from .passes import DEDUPE_BUFFER_BYTES, IO_BUFFER_BYTES, LOAD_FACTOR, Pass

SOURCE = Path(__file__).with_name("CleanPasses.java")
HEAP = "1g"


class KafkaCleaner:
    """A context manager. Its buffers are those of a broker's single cleaner thread with the same options."""

    def __init__(self, work: Path) -> None:
        """`work` is a directory for the compiled classes. NotRunError without a JDK."""
        folder = jars()
        if not shutil.which("javac"):
            raise NotRunError("a JDK")
        compiling = ["javac", "-d", str(work), "-cp", f"{folder}/*", str(SOURCE)]
        done = subprocess.run(compiling, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{SOURCE.name} does not compile:\n{done.stderr}")
        self.errors = work / "jvm-errors"
        self.command = [
            "java",
            f"-Xmx{HEAP}",
            "-XX:+UseG1GC",
            "-cp",
            f"{work}:{folder}/*",
            SOURCE.stem,
            str(DEDUPE_BUFFER_BYTES),
            str(LOAD_FACTOR),
            str(IO_BUFFER_BYTES // 2),
        ]

    def __enter__(self) -> Self:
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def clean(self, directory: Path, first_dirty_offset: int, now_ms: int) -> Pass:
        """Run one pass, as `passes.clean_with_ottla`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        fields = (directory, first_dirty_offset, now_ms, CONFIG.segment_bytes)
        with contextlib.suppress(BrokenPipeError):  # the JVM has ended: its answer will be missing
            print(*fields, sep="\t", file=self.process.stdin, flush=True)
        for line in self.process.stdout:  # its logger may also print lines
            word, *numbers = line.rstrip().split("\t")
            if word == "pass":
                cpu_ns, *counts = map(int, numbers)
                return Pass(cpu_ns / 1e9, *counts)
        raise RuntimeError(f"the JVM ended without an answer:\n{self.errors.read_text()[-3000:]}")
