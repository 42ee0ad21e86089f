"""Screenshots of pages, saved as `build/compat/page/*.png`, for people to view."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ottla

from ..support.suite import Suite
from .chromium import NARROW, WIDE, Window
from .scene import fill
from .walk import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[2] / "build" / "compat" / "page"
NEVER_MS = 10**12
MANY = 200
SEGMENT_BYTES = 40_000
SYNC_S = 0.15
"""The delay of the disk during a screenshot of a pass, which otherwise ends too soon."""
IN_README = {"width": 1000, "height": 636}
"""The size of `docs/pictures/status-page.png`, which is a copy of `status-page.png`."""
HALF_WAY = re.compile("a pass is copying group [2-9]")


@contextmanager
def quiet_broker() -> Iterator[ottla.Broker]:
    """Start a broker that cleans nothing by itself, so that the suite decides when a screenshot is taken.

    It has a data directory of its own, which is synced.
    """
    with (
        tempfile.TemporaryDirectory(prefix="compat-page-") as folder,
        ottla.Broker(folder, admin="0", overrides={"log.cleaner.backoff.ms": NEVER_MS}) as broker,
    ):
        yield broker


def taken(suite: Suite, browser: Browser) -> None:
    """Take all screenshots; a missing part of one fails."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    empty(suite, browser)
    one_log(suite, browser)
    many(suite, browser)


def shot(suite: Suite, page: Page, name: str, *, whole: bool = True) -> None:
    page.screenshot(path=FOLDER / f"{name}.png", full_page=whole)
    suite.check(f"{name}.png", (FOLDER / f"{name}.png").stat().st_size > 1_000)


def empty(suite: Suite, browser: Browser) -> None:
    """Photograph a broker as it is after its start."""
    with quiet_broker() as broker, Window(browser) as page:
        for name in ("", "topics", "groups", "transactions", "faults"):
            open_page(page, f"http://{broker.admin}/{name}")
            shot(suite, page, f"0-{name or 'overview'}")


def one_log(suite: Suite, browser: Browser) -> None:
    """Photograph a topic of one partition before, while and after it is compacted, light and dark, wide and narrow."""
    with quiet_broker() as broker, Window(browser) as page:
        root, topic = f"http://{broker.admin}", "orders"
        broker.create_topic(topic, 1, {"cleanup.policy": "compact", "internal.segment.bytes": SEGMENT_BYTES})
        filled_with_lives(broker, topic)
        open_page(page, f"{root}/topics/{topic}")
        shot(suite, page, "1-topic")
        open_page(page, f"{root}/topics/{topic}/partitions/0")
        shot(suite, page, "pass-1-before")
        page.set_viewport_size(IN_README)
        shot(suite, page, "status-page", whole=False)
        page.set_viewport_size(WIDE)
        page.get_by_role("button", name="Dry run", exact=True).click()
        page.get_by_role("paragraph").filter(has_text="The pass would keep").wait_for()
        shot(suite, page, "dry-run")
        open_page(page, f"{root}/topics/{topic}/keys?key=k9")
        shot(suite, page, "key", whole=False)
        open_page(page, f"{root}/topics/{topic}/partitions/0")
        broker.fault(disk="slow", delay=SYNC_S)
        page.get_by_role("button", name="Compact now").click()
        page.get_by_text(HALF_WAY).first.wait_for()
        shot(suite, page, "pass-2-during")
        broker.clear_faults()
        page.get_by_role("paragraph").filter(has_text="passes since the broker started: 2.").wait_for()
        page.get_by_text("Nothing is dirty").first.wait_for()
        page.get_by_role("paragraph").filter(has_text="90 records are left").wait_for()
        shot(suite, page, "pass-3-after")
        looks(suite, page, root, topic)


def looks(suite: Suite, page: Page, root: str, topic: str) -> None:
    """Take screenshots of the same broker in dark mode, and at a phone's size."""
    for name, path in (("overview", "/"), ("partition", f"/topics/{topic}/partitions/0"), ("topics", "/topics")):
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(WIDE)
        open_page(page, root + path)
        shot(suite, page, f"dark-{name}")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(NARROW)
        open_page(page, root + path)
        shot(suite, page, f"narrow-{name}")
    page.set_viewport_size(WIDE)
    for name in ("options", "records"):
        open_page(page, f"{root}/topics/{topic}/{name}")
        shot(suite, page, name, whole=False)


def filled_with_lives(broker: ottla.Broker, topic: str) -> None:
    """Write keys again and again and delete some of them in the end; the first part is compacted before."""
    fill(broker, topic, records=3_000, keys=60)
    broker.compact(topic, force=True)
    fill(broker, topic, records=8_000, keys=90)
    for number in range(0, 90, 9):
        broker.produce(topic, key=f"k{number}", value=None)


def many(suite: Suite, browser: Browser) -> None:
    """Photograph a topic of 200 partitions."""
    with quiet_broker() as broker, Window(browser) as page:
        broker.create_topic("wide", MANY, {"cleanup.policy": "compact"})
        fill(broker, "wide", records=MANY * 30, keys=MANY * 5)
        broker.compact("wide", range(0, MANY, 7), force=True)
        fill(broker, "wide", records=MANY * 10, keys=MANY * 5)
        open_page(page, f"http://{broker.admin}/")
        shot(suite, page, f"{MANY}-overview", whole=False)
        open_page(page, f"http://{broker.admin}/topics/wide")
        shot(suite, page, f"{MANY}-topic", whole=False)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(NARROW)
        shot(suite, page, f"{MANY}-topic-narrow-dark", whole=False)
