"""`ottla serve` whose clock another process moves: run by `clocked_ottla.py`.

    python clocked_serve.py SOCKET serve …

Each line on the Unix socket is a number of milliseconds by which the broker's clock goes on; it is answered when that is
done.
"""

import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from ottla.server.broker.lives import run_lives
from ottla.server.commands import cli, serve
from ottla.server.runtime.clock import Clock


def main(path: str, *arguments: str) -> int:
    clock = Clock()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(1)

    def obey(token: trio.lowlevel.TrioToken) -> None:
        while True:
            connection, _ = listening.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    done = threading.Event()
                    token.run_sync_soon(clock.advance, int(line))
                    token.run_sync_soon(done.set)
                    done.wait()
                    lines.write("done\n")
                    lines.flush()

    @asynccontextmanager
    async def run_clocked(*given: Any, **options: Any) -> AsyncIterator[Any]:
        async with run_lives(*given, clock=clock, **options) as lives:
            threading.Thread(target=partial(obey, trio.lowlevel.current_trio_token()), daemon=True).start()
            yield lives

    vars(serve)["run_lives"] = run_clocked
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
