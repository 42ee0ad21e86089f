"""Everybody can use it: axe-core on every page, the keyboard alone, the focus that stays, less motion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ottla
from ottla.server.page.pages import VIEWS

from ..support.suite import Suite
from .chromium import NARROW, WIDE, Window, violations
from .scene import fill
from .walk import kind_of, open_page, walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOKS = (("light", WIDE), ("dark", NARROW), ("dark", WIDE), ("light", NARROW))
"""Scheme of colours and window; `--quick` takes the first two in turn, one a page."""
TABS_MAX = 60
"""The most presses of Tab per page: a page with a field for each of a hundred options is only tested at its start."""
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((each) => each.type !== "hidden" && each.checkVisibility() && !each.closest("details:not([open]) > :not(summary)"))
    .map((each, number) => { each.dataset.reached = number; return number; }).length"""
FOCUSED = """() => {
    const each = document.activeElement, style = getComputedStyle(each), box = each.getBoundingClientRect();
    const isSeen = box.top < innerHeight && box.bottom > 0 && box.left < innerWidth && box.right > 0;
    return [each.dataset.reached ?? "", each.outerHTML.slice(0, 120), style.outlineStyle !== "none" && isSeen];
}"""
MOVES = """() => [...document.querySelectorAll("*")].filter((each) => {
    const style = getComputedStyle(each);
    return style.transitionDuration.split(", ").some((each) => parseFloat(each) > 0) || style.animationName !== "none";
}).map((each) => each.outerHTML.slice(0, 120))"""


def judge_all(suite: Suite, browser: Browser, broker: ottla.Broker, *, quick: bool) -> None:
    """Judge each page that links lead to."""
    root, kinds = f"http://{broker.admin}", set()
    window = Window(browser, reduced_motion="reduce")
    with window as page:
        for number, path in enumerate(walk(page, root, each_max=1 if quick else 3)):
            kinds.add(kind_of(path.partition("?")[0]))
            for scheme, size in [LOOKS[number % 2]] if quick else LOOKS:
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                found = violations(page)
                suite.check(f"{path}: axe-core, {scheme}, {size['width']} px", not found, "\n".join(found))
                suite.equal(f"{path}: nothing sticks out at {size['width']} px", 0, page.evaluate(TOO_WIDE))
            suite.equal(f"{path}: nothing moves where less motion is asked for", [], page.evaluate(MOVES))
            page.set_viewport_size(WIDE)
            reached_by_keyboard(suite, page, path, at_most=20 if quick else TABS_MAX)
        page.evaluate("() => { document.querySelector('main').innerHTML = '<img src=/static/icon.svg><input>'; }")
        suite.check("axe-core does find an image and a field without a name", len(violations(page)) >= 2)
    suite.equal("every view is reached by links", set(), set(VIEWS) - kinds)
    suite.equal("the console is empty on all of them", [], window.said)


def reached_by_keyboard(suite: Suite, page: Page, path: str, *, at_most: int) -> None:
    """Tab alone: everything that can be operated has the focus once, and shows it."""
    count = page.evaluate(REACHABLE)
    page.evaluate("() => { document.activeElement.blur(); window.getSelection().removeAllRanges(); scrollTo(0, 0); }")
    reached, hidden = set(), []
    for _ in range(min(count, at_most) + 1):
        page.keyboard.press("Tab")
        number, html, is_seen = page.evaluate(FOCUSED)
        if number in reached:
            break
        if number:
            reached.add(number)
            if not is_seen:
                hidden.append(html)
    expected = min(count, at_most)
    suite.check(f"{path}: Tab reaches all there is", len(reached) >= expected, f"{len(reached)} of {count}")
    suite.equal(f"{path}: what has the focus shows it", [], hidden)


def operated_by_keyboard(suite: Suite, browser: Browser, broker: ottla.Broker) -> None:
    """Create a topic, and open a group of settings, without a mouse."""
    with Window(browser) as page:
        open_page(page, f"http://{broker.admin}/topics")
        page.keyboard.press("Tab")
        suite.equal("the first Tab offers the way to the content", "Skip to content", focused_text(page))
        page.keyboard.press("Enter")
        tab_to(page, "Name")
        page.keyboard.type("by-keyboard")
        tab_to(page, "Create")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="by-keyboard", exact=True).wait_for()
        suite.check("a topic is created by Tab, letters and Enter", "by-keyboard" in topics(broker))
        suite.equal("the button that was pressed has the focus still", "Create", focused_text(page))
        said = [each.inner_text() for each in page.get_by_role("status").all()]
        suite.check("screen readers get the result", "Topic created." in said, said)


def focus_stays(suite: Suite, browser: Browser, broker: ottla.Broker) -> None:
    """Check that the focus stays while rows and sections change."""
    broker.create_topic("busy", partitions=1, configs={"cleanup.policy": "compact"})
    with Window(browser) as page:
        open_page(page, f"http://{broker.admin}/topics/busy")
        page.get_by_role("link", name="0", exact=True).focus()
        fill(broker, "busy", records=7, keys=7)
        page.locator("#partition-0 [data-name=End]", has_text="7").wait_for()
        suite.equal("a link in a row that has changed has the focus still", "0", focused_text(page))

        open_page(page, f"http://{broker.admin}/topics")
        name = page.get_by_label("Name")
        name.fill("half-writ")
        page.get_by_role("link", name="busy", exact=True).focus()
        broker.create_topic("another", partitions=1)
        page.get_by_role("link", name="another", exact=True).wait_for()
        suite.equal("a row that came above leaves the focus where it was", "busy", focused_text(page))
        suite.equal("partly written input is kept", "half-writ", name.input_value())
        broker.delete_topic("busy")
        page.get_by_role("link", name="busy", exact=True).wait_for(state="detached")
        suite.equal("after a row disappears its section has the focus", "Topics", focused_text(page))

        open_page(page, f"http://{broker.admin}/")
        page.get_by_role("button", name="Stop node 1", exact=True).press("Enter")
        page.get_by_role("button", name="Start node 1", exact=True).wait_for()
        suite.equal("a button that has another meaning now has the focus still", "Start node 1", focused_text(page))
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Stop node 1", exact=True).wait_for()
        suite.equal("and starts the node again", "Stop node 1", focused_text(page))


def topics(broker: ottla.Broker) -> list[str]:
    return [each.name for each in broker.topics()]


def focused_text(page: Page) -> str:
    """Return the name of what has the focus."""
    found: str = page.evaluate(
        "() => document.activeElement.ariaLabel ?? document.activeElement.textContent.trim().slice(0, 60)"
    )
    return found


def tab_to(page: Page, label: str) -> None:
    """Press Tab until what is called so has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if page.evaluate(
            "() => document.activeElement.labels?.[0]?.textContent.trim() ?? document.activeElement.textContent.trim()"
        ).startswith(label):
            return
    raise AssertionError(f"Tab never came to {label!r}")
