"""The number of steps in which a person without knowledge compacts a topic. Each press, and each choice, is a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ottla

from ..support.suite import Suite
from .chromium import Window
from .scene import fill
from .walk import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NEVER_MS = 10**12


def has_it_compacted(suite: Suite, browser: Browser) -> None:
    """Compact a topic in the browser; only the first page is opened by its address, as `ottla dev` prints it."""
    with ottla.Broker(admin="0", overrides={"log.cleaner.backoff.ms": NEVER_MS}) as broker, Window(browser) as page:
        broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
        broker.create_topic("visits", 1, {"cleanup.policy": "delete"})
        for topic in ("orders", "visits"):
            fill(broker, topic, records=1_000, keys=10)

        open_page(page, f"http://{broker.admin}/")
        page.get_by_role("button", name="Compact orders").click()
        page.get_by_text("Compacted.").first.wait_for()
        suite.equal("a compacted topic, in 1 step: Compact (next to its name)", 10, kept(broker, "orders"))
        page.locator("#compacted-orders").get_by_text("nothing, all clean").wait_for()
        suite.check("and the page says so by itself", True)

        open_page(page, f"http://{broker.admin}/")
        page.get_by_role("link", name="Topics", exact=True).click()
        page.get_by_role("link", name="visits", exact=True).click()
        page.get_by_role("button", name="Make this topic compacted").click()
        page.get_by_role("button", name="Compact now").click()
        page.get_by_text("Compacted.").first.wait_for()
        suite.equal(
            "one that is not compacted at all, in 4: Topics, its name, Make this topic compacted, Compact now",
            10,
            kept(broker, "visits"),
        )

        fill(broker, "orders", records=1_000, keys=10)
        open_page(page, f"http://{broker.admin}/")
        page.get_by_role("link", name="orders-0", exact=True).click()
        page.get_by_role("button", name="Compact now").click()
        page.get_by_text("Compacted.").first.wait_for()
        suite.equal("one partition, seen before and after, in 2: orders-0, Compact now", 10, kept(broker, "orders"))
        page.get_by_text("Nothing is dirty").wait_for()


def kept(broker: ottla.Broker, topic: str) -> int:
    """Return the number of records in the topic."""
    return len(list(broker.records(topic)))
