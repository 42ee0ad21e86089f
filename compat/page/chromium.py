"""Headless Chromium from Debian's package, driven by Playwright; axe-core checks the pages.

Playwright and axe-core are in an environment of their own in the cache: only this suite needs them.
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
"""The second package contains axe-core 4.12.1, the only part of it that is used."""
NAMES = {"rebound.test": "127.0.0.1", "stranger.test": "127.0.0.1"}
"""Other names of this machine, as a foreign name server may define them."""
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
    """Return Chromium's path. NotRunError if it is not installed."""
    found = shutil.which("chromium")
    if not found:
        raise NotRunError("chromium")
    return found


@fetches("playwright")
def packages() -> Path:
    """Return the folder of Playwright and axe-core, installed at first use. NotRunError without the package index."""
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
    """Start a browser with an empty profile. NotRunError if it is missing."""
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
    """One window, and the messages of its console.

    Args:
        with_touch, width and so on: Options of Playwright's `new_context`.
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
    """Return axe-core's violations on the current page, a line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate((packages() / "axe_playwright_python" / "axe.min.js").read_text())
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['failureSummary'].splitlines()[-1].strip()}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]
