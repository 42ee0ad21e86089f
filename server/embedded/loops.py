"""Which event loop the caller is in, and how what blocks is done beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import trio


def event_loop() -> str | None:
    """`trio` or `asyncio`; None outside of both."""
    if trio.lowlevel.in_trio_task():
        return "trio"
    asyncio = sys.modules.get("asyncio")  # who has never loaded it is not in it
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return "asyncio"
    return None


async def beside(work: Callable[[], object]) -> None:
    """`work()` in a thread, to its end, while the loop goes on.

    A cancellation meanwhile is felt when it has ended: what was started is there then, and whoever cancelled finds it so.

    Raises:
        RuntimeError: In another event loop than Trio's and asyncio's.
        As `work`.
    """
    loop = event_loop()
    if loop == "trio":
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(work)
    elif loop == "asyncio":
        await _beside_asyncio(work)
    else:
        raise RuntimeError("`async with ottla.Broker()` supports Trio and asyncio only; use `with ottla.Broker()`")


async def _beside_asyncio(work: Callable[[], object]) -> None:
    import asyncio

    done = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            if done.cancelled():
                raise
            cancelled = error
        except BaseException:  # noqa: BLE001 - raised below
            break
    if cancelled is None:
        done.result()
        return
    raise cancelled
