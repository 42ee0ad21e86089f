"""Start of Spark's JVM, with its standard error held back: it prints hundreds of lines, and the reason of a failure is one of them."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TextIO

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ..errors import PipelineError

_UNRESOLVED = re.compile(r"(?:unresolved dependency|download failed): [^,\]]+")
_UNREACHABLE = re.compile(r"Host (?!repos\.spark-packages)\S+ not found")
_SAYS_NOTHING = re.compile(r"\s*$|\s+at |WARNING: |.* WARN ")


def start(confs: Mapping[str, str], say: Callable[[str], None]) -> SparkSession:
    """Start Spark with these options, and return its session.

    Args:
        say: Receives a line for each jar that Spark downloads.

    Raises:
        PipelineError: The JVM ended before it could be used. The text is the reason that it printed.
    """
    conf = SparkConf().setAll(list(confs.items()))
    if SparkContext._gateway is None:  # else this process has a JVM
        launch(conf, say)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def launch(conf: SparkConf, say: Callable[[str], None]) -> None:
    """Start a JVM, and Spark in it. Raises PipelineError as `start`."""
    ours, its = os.pipe()
    output = JvmOutput(os.fdopen(ours, encoding="utf-8", errors="replace"), say)
    try:
        gateway = launch_gateway(conf, {"stderr": its})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        os.close(its)
        raise PipelineError(output.reason() or str(error)) from error
    os.close(its)
    try:
        SparkContext(conf=conf, gateway=gateway)
    finally:
        output.release()  # a start that failed leaves the JVM to the next one


class JvmOutput:
    """Lines that a JVM prints: kept until `release`, then forwarded to standard error."""

    def __init__(self, lines: TextIO, say: Callable[[str], None]) -> None:
        self._lines = lines
        self._say = say
        self._kept: list[str] | None = []
        self._reader = threading.Thread(target=self._read, name="ottla-spark-jvm", daemon=True)
        self._reader.start()

    def release(self) -> None:
        """Discard the lines so far, and forward all later ones."""
        self._kept = None

    def reason(self) -> str:
        """Return the reason why the JVM has ended: the dependencies that Ivy did not find, else the last two lines."""
        self._reader.join()
        lines = self._kept or []
        text = "\n".join(lines)
        if unresolved := list(dict.fromkeys(_UNRESOLVED.findall(text))):
            hints = list(dict.fromkeys(_UNREACHABLE.findall(text)))
            if not hints and "not found" in unresolved[0]:
                hints = ["take a release that exists, e.g. the newest before it"]
            return ", ".join([*unresolved, *hints])
        return "; ".join([each.strip() for each in lines if not _SAYS_NOTHING.match(each)][-2:])

    def _read(self) -> None:
        with self._lines:
            for line in self._lines:
                if (kept := self._kept) is None:
                    print(line, end="", file=sys.stderr, flush=True)
                    continue
                kept.append(line.rstrip("\n"))
                if line.startswith("downloading "):
                    self._say(line.removesuffix("...\n").strip())
