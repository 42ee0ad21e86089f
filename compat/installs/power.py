"""Power lost in installs on a simulated disk; the searches run in processes of their own."""

import sys
from concurrent.futures import Executor
from types import FrameType

from ..support.suite import Suite


def search_all(suite: Suite, processes: Executor, how: str, quick: bool) -> None:
    """Lose power wherever it can be lost; `how` is one of `support.pipeline.install_lives.RUNS`."""
    from support.pipeline.install_lives import INSTALLS

    servers = (True, False) if how == "offline" else (True,)  # an install through a server starts one itself
    jobs = [(name, how, with_server, quick) for name in INSTALLS for with_server in servers]
    for (name, _, with_server, _), (told, wrong) in zip(
        jobs, processes.map(search, *zip(*jobs, strict=True)), strict=True
    ):
        then = "a server starts" if with_server else "it is called again"
        suite.check(f"power lost in an install ({how}) {name}; then {then}", not wrong, told)


def search(name: str, how: str, with_server: bool, quick: bool) -> tuple[str, int]:
    """Return the summary of a search, and the number of wrong disks."""
    from support.pipeline.install_lives import INSTALLS, search

    life = INSTALLS[name]()
    # If more operations than this are not synced, any two of them may be missing; of up to this number, any combination.
    life.files.changes_max = 6 if quick else 8
    thinned = (
        {"losses": 1, "thinned_to": 48} if quick else {"losses": 2, "recover_thinned_to": 32, "later_thinned_to": 32}
    )
    counts = search(life, how=how, with_server=with_server, **thinned)
    return f"{counts} {dict(counts.failures) or ''}", counts.failing


def without_a_sync() -> tuple[str, int]:
    """Run `search` with a link_into whose sync does nothing."""
    from support.pipeline.install_lives import search, staged

    life = staged()
    life.files.changes_max = 8
    life.files.skipped = lambda _: is_in("link_into")
    counts = search(life, with_server=True, losses=1)
    return str(counts), counts.failing


def is_in(name: str) -> bool:
    """Return whether a function of this name is being called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == name:
            return True
        frame = frame.f_back
    return False
