"""`ottla serve` whose clock another process moves: run by `clocked_ottla.py`.

    python clocked_serve.py SOCKET CHECKOUT serve …

Each line on the Unix socket is a number of milliseconds by which the broker's clock goes on; it is answered when that is
done. CHECKOUT is a folder of the project whose broker runs, `-` for the one that is installed.
"""

import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any


def take_from(checkout: str, work: str) -> None:
    """Import `ottla` from a folder that need not have that name, by a link in `work`."""
    folder = os.path.join(work, "checkout")
    os.makedirs(folder, exist_ok=True)
    with suppress(FileExistsError):  # from an earlier start of the same broker
        os.symlink(os.path.abspath(checkout), os.path.join(folder, "ottla"))
    sys.path.insert(0, folder)


def main(path: str, checkout: str, *arguments: str) -> int:
    if checkout != "-":
        take_from(checkout, os.path.dirname(path))
    import trio

    from ottla.server.broker.broker import run_broker
    from ottla.server.commands import cli, serve
    from ottla.server.runtime.clock import Clock

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
        async with run_broker(*given, clock=clock, **options) as broker:
            threading.Thread(target=partial(obey, trio.lowlevel.current_trio_token()), daemon=True).start()
            yield broker

    serve.run_broker = run_clocked
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
