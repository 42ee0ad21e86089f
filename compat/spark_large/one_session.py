"""Command lines of `ottla-spark`, one after the other on one Spark session: a JVM takes longer to start than short work.

python -m compat.spark_large.one_session HEAP     a JSON list of arguments a line in; [exit code, output, errors] out
"""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .memory import MemoryWatch


class OneSession:
    """A context manager: the process that has the session, watched."""

    def __init__(self, scratch: Path, heap: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.one_session", heap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"SPARK_LOCAL_DIRS": str(scratch)},
        )
        self.watch = MemoryWatch(self._process.pid)

    def __enter__(self) -> Self:
        self.watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.communicate()
        self.watch.__exit__()

    def run(self, *arguments: str) -> dict[str, Any]:
        """Return a command's JSON output. RuntimeError with its message if it fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        exit_code, output, errors = json.loads(self._process.stdout.readline() or '[-1, "", "it is gone"]')
        if exit_code:
            raise RuntimeError(f"ottla-spark {arguments[0]} ended with {exit_code}: {errors.splitlines()[-1:]}")
        return dict(json.loads(output))


def main(heap: str) -> None:
    from ottla.pipeline.cli import main as ottla_spark
    from ottla.pipeline.run.session import builder
    from ottla.pipeline.source.source import register

    spark = builder("spark_large", master="local[2]").config("spark.driver.memory", heap).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    for line in sys.stdin:
        output, errors = StringIO(), StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            exit_code = ottla_spark([*json.loads(line), "--json", "--quiet"])
        print(json.dumps([exit_code, output.getvalue(), errors.getvalue()]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
