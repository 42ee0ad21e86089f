"""`docs/configuration.md`, made from the declarations of all options and from the profiles.

cd tests && python -m support.texts.configuration_page      writes it anew
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla.server.config.group_configs import GROUP_OPTIONS
from ottla.server.config.options.known_options import BROKER_OPTIONS
from ottla.server.config.static_config import PROFILES
from ottla.storage.topics.config import TOPIC_OPTIONS
from ottla.storage.topics.options import Option, UpdateMode, format_value

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
INTRODUCTION = """\
# Profiles and configuration

Made from the broker's own declarations (`cd tests && python -m support.texts.configuration_page`); `ottla describe-config NAME` says the
same of one. Names, defaults and bounds are Apache Kafka 4.3.1's. Options that are taken, and mean nothing here, are in
[a list of their own](options-without-effect.md), each with its reason.

An option has the value of the strongest source that gives one: what was set at run time for one broker, for all brokers, then
`--override NAME=VALUE` (`overrides=` of `ottla.Broker`), other flags, the environment, `--config FILE`, `--profile`, Apache Kafka's default.
`ottla configs describe topic:NAME` shows where each value comes from.

Where it may be changed: *anywhere* is at the start, and at run time for one broker or all; *all brokers* is at the start, and at run time
for all together; *start* is at the start alone. An option of a topic may be changed at any time (`ottla configs alter topic:NAME
NAME=VALUE`); its default, where *default from* names an option of the broker, is what that option says.
"""
WHERE = {UpdateMode.READ_ONLY: "start", UpdateMode.PER_BROKER: "anywhere", UpdateMode.CLUSTER_WIDE: "all brokers"}


def page() -> str:
    """The whole text."""
    return "\n".join([INTRODUCTION, *_profiles(), *_topics(), *_groups(), *_broker()])


def _profiles() -> Iterator[str]:
    yield "## Profiles\n"
    yield "`kafka` is Apache Kafka's defaults, and what `ottla serve` takes unless told. `dev` is for development and tests, and what"
    yield "`ottla dev`, `ottla.Broker` and the pytest plugin take: it says no more than these.\n"
    yield "| option | `dev` | `kafka` |"
    yield "|---|---|---|"
    for name, value in PROFILES["dev"].items():
        yield f"| `{name}` | `{value}` | {_shown(BROKER_OPTIONS[name])} |"
    yield ""


def _topics() -> Iterator[str]:
    yield "## Topics\n"
    yield "| option | type | default | bounds | default from | what it does |"
    yield "|---|---|---|---|---|---|"
    for option in _acting(TOPIC_OPTIONS.values()):
        above = ", ".join(f"`{synonym.name}`" for synonym in option.synonyms)
        yield f"| {_first(option)} | {above} | {_cell(option.doc)} |"
    yield ""


def _groups() -> Iterator[str]:
    yield "## Groups\n"
    yield "Of one consumer group (`ottla configs alter group:ID NAME=VALUE`), within the bounds that the broker's options `group.…` have.\n"
    yield "| option | type | default | bounds | what it does |"
    yield "|---|---|---|---|---|"
    for option in _acting(GROUP_OPTIONS.values()):
        if option.name.startswith("consumer."):
            yield f"| {_first(option)} | {_cell(option.doc)} |"
    yield ""


def _broker() -> Iterator[str]:
    yield "## Broker\n"
    yield "| option | type | default | bounds | changed | what it does |"
    yield "|---|---|---|---|---|---|"
    for option in _acting(BROKER_OPTIONS.values()):
        yield f"| {_first(option)} | {WHERE[option.update]} | {_cell(option.doc)} |"
    yield ""


def _acting(options: Iterable[Option]) -> list[Option]:
    return sorted((each for each in options if each.acts and not each.hidden), key=lambda each: each.name)


def _first(option: Option) -> str:
    bound = "" if option.check is None else option.check.bound.removeprefix("Value ").removeprefix("must be ")
    return f"`{option.name}` | {option.type.name.lower()} | {_shown(option)} | {_cell(bound)}"


def _shown(option: Option) -> str:
    if option.default is None:
        return ""
    text = format_value(option.default)
    return f"`{text}`" if text else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page())
