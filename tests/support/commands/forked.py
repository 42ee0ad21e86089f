"""Processes of Python that have loaded a broker already: `started` in place of `subprocess.Popen`.

What such a process imports is most of what it costs, and the same each time. In a slice the first one to start has a process load it
all, and each later one is a fork of that. In full, and where a test asks for a `cold` one, Python begins from nothing.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

LOADED = (
    "cryptography.hazmat.primitives.serialization.pkcs12",
    "h11",
    "jwt",
    "re2",
    "yaml",
    "ottla.server.commands.dev_command",
    "ottla.server.commands.serve",
    "ottla.server.embedded.broker",
    "ottla.server.groups.coordinator",
    "ottla.server.security.tls.throw_away",
    "ottla.server.transactions.coordinator",
)
MESSAGE_BYTES_MAX = 1 << 17
"""Of a command with its environment."""
STATUS = struct.Struct("i")
Stream = int | IO[Any] | None


def started(
    *words: str,
    cold: bool = False,
    descriptors: int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = None,
) -> subprocess.Popen[str]:
    """`python WORDS`, which begin with `-m MODULE` or `-c CODE`; `cold` if what it loads, and when, is what the test is about.

    It may have few `descriptors`.
    """
    from support.sizes import FULL  # the process that forks has no use for it

    if cold or FULL or descriptors is not None:
        few = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"]
        line = [*few, sys.executable, *words]
        return subprocess.Popen(line, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=True)
    return Forked(words, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=True)


def ran(
    *words: str, cold: bool = False, env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """`python WORDS` to its end."""
    with started(*words, cold=cold, env=env, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Forked(subprocess.Popen[str]):
    """Another process is its parent, and says how it ended."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *others: Any) -> None:
        cwd, env, pipes = others[2], others[3], others[7:13]
        streams = [theirs if theirs != -1 else at for at, theirs in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._status, theirs = socket.socketpair()
        order = {"words": args, "env": dict(os.environ if env is None else env), "cwd": str(cwd or os.getcwd())}
        with theirs:
            socket.send_fds(forker(), [json.dumps(order).encode()], [*streams, theirs.fileno()])
        (self.pid,) = STATUS.unpack(self._status.recv(STATUS.size))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # of subprocess.Popen

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        self._status.setblocking(not wait_flags & os.WNOHANG)
        try:
            said = self._status.recv(STATUS.size)
        except BlockingIOError:
            return 0, 0
        (status,) = STATUS.unpack(said)
        self._status.close()
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **_: object) -> int | None:
        if self.returncode is None and self._status.fileno() != -1:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]  # of subprocess.Popen
        return self.returncode


@functools.cache
def forker() -> socket.socket:
    """To the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        line = [sys.executable, __file__, str(theirs.fileno())]
        # Pipes, as forks have: Python asks but once what its streams can do.
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()], start_new_session=True
        )

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


# The process that forks


def words_of_a_fork(orders: socket.socket) -> list[str] | None:
    """In each fork its words; in the process itself None, once all that it was to fork has been."""
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        children: dict[int, tuple[int, socket.socket]] = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is not orders:
                    pid, status = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    with status:
                        end = os.waitpid(pid, 0)[1]
                        with suppress(BrokenPipeError):
                            status.sendall(STATUS.pack(end))
                    continue
                message, descriptors, _, _ = socket.recv_fds(orders, MESSAGE_BYTES_MAX, 4)
                if not message:
                    for pid, _ in children.values():
                        os.kill(pid, signal.SIGKILL)
                    return None
                status = socket.socket(fileno=descriptors.pop())
                pid = os.fork()
                if pid == 0:
                    orders.close()
                    for descriptor, (_, other) in children.items():
                        os.close(descriptor)
                        other.close()
                    status.close()
                    for at, descriptor in enumerate(descriptors):
                        os.dup2(descriptor, at)
                        os.close(descriptor)
                    order = json.loads(message)
                    os.environ.clear()
                    os.environ.update(order["env"])
                    os.chdir(order["cwd"])
                    return [*order["words"]]
                for descriptor in descriptors:
                    os.close(descriptor)
                status.sendall(STATUS.pack(pid))
                watched = os.pidfd_open(pid)
                children[watched] = pid, status
                selector.register(watched, selectors.EVENT_READ)


def run_as_python(words: list[str]) -> None:
    """What `python WORDS` does."""
    is_safe = words[0] == "-P"
    option, what, *arguments = words[is_safe:]
    folder = [] if is_safe else ["" if option == "-c" else os.getcwd()]
    sys.path[:1] = folder + [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if option == "-m":
        sys.argv[1:] = arguments
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [option, *arguments]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(what, "<string>", "exec"), main.__dict__)  # noqa: S102 - it is what `python -c` is for


if __name__ == "__main__":
    import gc

    for name in LOADED:
        with suppress(ImportError):  # of an extra
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    given = words_of_a_fork(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        run_as_python(given)
