"""`docs/apis.md` and `docs/options-without-effect.md`, made from the tables that the broker uses.

cd tests && python -m support.broker.reference_pages      rewrites them
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.apis import APIS
from ottla.server.config.group_configs import GROUP_OPTIONS
from ottla.server.config.options.known_options import BROKER_OPTIONS, REASONS
from ottla.server.handlers import CONTROLLER_KEYS
from ottla.server.handlers.api_versions import OF_METRICS
from ottla.storage.topics.config import TOPIC_OPTIONS

DOCS = Path(__file__).parents[3] / "docs"
APIS_PAGE = DOCS / "apis.md"
OPTIONS_PAGE = DOCS / "options-without-effect.md"


def apis_page() -> str:
    """Return the whole text of docs/apis.md."""
    return "\n".join(_apis())


def _apis() -> Iterator[str]:
    yield "# APIs and versions\n"
    yield "`cd tests && python -m support.broker.reference_pages` makes this page from the broker's own tables. A test compares the page"
    yield "and the answer to ApiVersions with Apache Kafka 4.4.0.\n"
    yield "| key | API | versions | at a controller's listener |"
    yield "|---|---|---|---|"
    for key, api in APIS.items():
        low, high = api.versions
        versions = f"{low}–{high}" if low != high else str(low)
        if api.advertised != api.versions:
            versions += f" (named as {api.advertised[0]}–{api.advertised[1]})"
        if api.name in OF_METRICS:
            versions += " (listed if a metrics receiver is configured)"
        yield f"| {key} | {api.name} | {versions} | {'yes' if key in CONTROLLER_KEYS else ''} |"


def options_page() -> str:
    """Return the whole text of docs/options-without-effect.md."""
    return "\n".join(_options())


def _options() -> Iterator[str]:
    yield "# Options without effect\n"
    yield "These options of Apache Kafka 4.4.0 have no effect in Ottla. They are accepted, checked as in Apache Kafka, and shown. A log"
    yield "line names each broker option that is set. `cd tests && python -m support.broker.reference_pages` makes this page from the broker's own tables.\n"
    yield "| why | options |"
    yield "|---|---|"
    reasons: dict[str, list[str]] = {reason: [] for _, reason in REASONS}
    for options, of in ((BROKER_OPTIONS, ""), (TOPIC_OPTIONS, " (topic)"), (GROUP_OPTIONS, " (group)")):
        for option in options.values():
            if not option.acts:
                reasons.setdefault(why(option.doc), []).append(f"`{option.name}`{of}")
    for reason, names in reasons.items():
        if names:
            yield f"| {reason} | {', '.join(names)} |"
    yield ""


def why(doc: str) -> str:
    """Return the reason that an option's text gives."""
    _, _, reason = doc.partition("No effect in Ottla: ")
    return reason.removesuffix(".") or "it gives topics a default that means nothing here"


if __name__ == "__main__":
    APIS_PAGE.write_text(apis_page())
    OPTIONS_PAGE.write_text(options_page())
