"""A hook in the Python of the suite's executors: notes the steps of the pipeline's tasks, and ends processes on request.

Python imports this module when it starts (the suite's PYSPARK_PYTHON puts this folder on its path), so the pipeline itself
is unchanged. The folder OTTLA_COMPAT_MOMENTS contains

    moments                 a line for each moment that was reached: its name, and the executor's work directory
    order.<moment>          the victims, a line each; the first process that reaches the moment removes the order and obeys:
                            `executor`, `worker`, `self` (this Python) or a process id are killed, `pause` stops this Python
    unseen                  a directory that executors do not have; read when their Python starts

Moments are `scan.N` and `merge.N`, the N-th call of the cluster of stages 1 and 2, and `<base offset>.N.<operation>`, which
is the N-th file operation of an attempt of stage 3, before it happens.
"""

import errno
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

DIRECTORY = os.environ["OTTLA_COMPAT_MOMENTS"]
EXECUTOR = os.getppid()  # this runs in the daemon, from which Spark forks the workers
PART = re.compile(r"/(\d{20})\.[^/]+\.part(?=/|$)")

_operations: Counter[str] = Counter()
_attempt = ("", "")
"""Path and base offset of the `.part` directory that was last worked in."""


def reached(moment: str) -> None:
    with open(f"{DIRECTORY}/moments", "a", encoding="utf-8") as moments:
        moments.write(f"{moment} {os.getcwd()}\n")
    order = f"{DIRECTORY}/order.{moment}"
    taken = f"{DIRECTORY}/obeyed.{moment}.{os.getpid()}"
    try:
        os.rename(order, taken)
    except FileNotFoundError:
        return
    with open(taken, encoding="utf-8") as text:
        for victim in text.read().split():
            if victim == "pause":
                os.kill(os.getpid(), signal.SIGSTOP)  # until Spark loses patience and kills it
            else:
                os.kill(_pid(victim), signal.SIGKILL)


def _pid(victim: str) -> int:
    if victim == "executor":
        return EXECUTOR
    if victim == "worker":  # Spark's: the executor's parent
        with open(f"/proc/{EXECUTOR}/stat", encoding="utf-8") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    return os.getpid() if victim == "self" else int(victim)


def _number(name: str) -> int:
    """Return the next number: one more than the last one that any process got."""
    number = 0
    while True:
        try:
            os.close(os.open(f"{DIRECTORY}/number.{name}.{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            number += 1
        else:
            return number


def _stage(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **options: Any) -> Any:
        reached(f"{name}.{_number(name)}")
        return function(*arguments, **options)

    return called


def _operation(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        global _attempt
        part = PART.search(path)
        if part is not None:
            _attempt = (part[0], part[1])
        if _attempt[0] and (part is not None or name == "sync_dir") and (name != "open" or options.get("create")):
            reached(f"{_attempt[1]}.{_operations[_attempt[0]]}.{name}")
            _operations[_attempt[0]] += 1
        return function(self, path, *arguments, **options)

    return called


def _without(directory: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str) and path.startswith(directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *arguments, **options)

    return called


def _install() -> None:
    from ottla.pipeline.compaction import exchange
    from ottla.storage.disk.os_files import OsFiles

    for name, stage in (("scan", "scan_source"), ("merge", "merge_buckets")):
        setattr(exchange, stage, _stage(name, getattr(exchange, stage)))
    for name in ("make_dir", "open", "rename", "sync_dir"):
        setattr(OsFiles, name, _operation(name, getattr(OsFiles, name)))
    if os.path.exists(f"{DIRECTORY}/unseen"):
        with open(f"{DIRECTORY}/unseen", encoding="utf-8") as text:
            os.open = _without(text.read(), os.open)


_install()
