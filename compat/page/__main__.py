"""The status page in headless Chromium, used as a person uses it: by its visible text, and by the keyboard."""

import sys

from ..support.suite import NotRunError, Options, Suite, run_suite
from . import accessibility, person, screenshots, strangers
from .chromium import chromium
from .scene import full


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start its own brokers, of Ottla")
    with chromium() as browser:
        suite.note(f"Chromium {browser.version}")
        person.has_it_compacted(suite, browser)
        strangers.change_nothing(suite, browser, quick=options.quick)
        strangers.names_are_text(suite, browser)
        with full() as broker:
            accessibility.operated_by_keyboard(suite, browser, broker)
            accessibility.focus_stays(suite, browser, broker)
            accessibility.judge_all(suite, browser, broker, quick=options.quick)
        if not options.quick:
            screenshots.taken(suite, browser)


if __name__ == "__main__":
    sys.exit(run_suite("page", body, doc=__doc__))
