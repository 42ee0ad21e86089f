"""Headless Chromium as Debian packages it, driven by Playwright; axe-core judges what it shows.

Playwright and axe-core live in an environment of their own in the cache: nothing of the project needs them but this.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.brokers.apache_kafka import cache_dir, fetches
from ..support.suite import NotRunError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NEEDED = ("playwright==1.65.2", "axe-playwright-python==0.1.8")
"""The second ships axe-core 4.12.1, which is all that is used of it."""
NAMES = {"rebound.test": "127.0.0.1", "stranger.test": "127.0.0.1"}
"""Other names of this machine, as somebody's name server may make them."""
FLAGS = (
    "--no-sandbox",  # there is none for root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=" + ",".join(f"MAP {name} {address}" for name, address in NAMES.items()),
)
TIMEOUT_MS = 60_000
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}


def executable() -> str:
    """NotRunError where there is no Chromium."""
    found = shutil.which("chromium")
    if not found:
        raise NotRunError("chromium")
    return found


@fetches("playwright")
def packages() -> Path:
    """Where Playwright and axe-core are, installed there the first time. NotRunError without the package index."""
    folder = (
        cache_dir() / f"playwright-{sys.version_info.major}.{sys.version_info.minor}-{NEEDED[0].partition('==')[2]}"
    )
    found = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    if (folder / "complete").exists():
        return found
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *NEEDED]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRunError(f"pip and the package index ({done.stderr.strip()[-200:]})")
    (folder / "complete").touch()
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with nothing remembered. NotRunError where it cannot be had."""
    path, found = executable(), packages()
    if str(found) not in sys.path:
        sys.path.append(str(found))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """One window, and what its console was told.

    Args:
        with_touch, width and so on: As Playwright's `new_context` has them.
    """

    def __init__(self, browser: Browser, **look: Any) -> None:
        self.context = browser.new_context(**{"viewport": WIDE, **look})
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        """Errors and warnings, of the Content-Security-Policy above all."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.said.append(f"script: {error}"))

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.text} ({message.location.get('url', '')})")

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.context.close()


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with what is shown, a line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate((packages() / "axe_playwright_python" / "axe.min.js").read_text())
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['failureSummary'].splitlines()[-1].strip()}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]
