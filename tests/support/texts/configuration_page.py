"""`docs/configuration.md`, made from the declarations of all options and from the profiles.

cd tests && python -m support.texts.configuration_page      rewrites it
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

This page lists every option with its default and bounds. `ottla describe-config NAME` shows the same for one option. Names, defaults and
bounds are Apache Kafka 4.4.0's. Options that are accepted without having an effect are on
[another page](options-without-effect.md), each with the reason. Only Ottla has the boolean option `ottla.hold.heartbeats`:
[answers to heartbeats](differences.md#consumer-groups) wait until the group changes. The topic options of
[another page](which-record-stays.md) are Ottla's as well; `ottla configs describe topic:NAME` shows them where they are set.

The value of an option comes from the first of these sources that sets it: run time for one broker, run time for all brokers,
`--override NAME=VALUE` (`overrides=` of `ottla.Broker`), other flags, the environment, `--config FILE`, `--profile`, Apache Kafka's default.
`ottla configs describe topic:NAME` shows the source of each value.

All broker options can be set at the start. The column *changed* says which can change at run time: *anywhere*, for one broker or for all;
*all brokers*, only for all together; *start*, not at run time. A topic option can change at any time (`ottla configs alter topic:NAME
NAME=VALUE`). The broker option in the column *default from* gives its default.

`cd tests && python -m support.texts.configuration_page` makes this page from the broker's own declarations.
"""
WHERE = {UpdateMode.READ_ONLY: "start", UpdateMode.PER_BROKER: "anywhere", UpdateMode.CLUSTER_WIDE: "all brokers"}


def page() -> str:
    """Return the whole text."""
    return "\n".join([INTRODUCTION, *_profiles(), *_topics(), *_groups(), *_broker()])


def _profiles() -> Iterator[str]:
    yield "## Profiles\n"
    yield "The profile `kafka` has Apache Kafka's defaults; `ottla serve` uses it by default. The profile `dev` is for development and tests;"
    yield "`ottla dev`, `ottla.Broker` and the pytest plugin use it. It changes the defaults of these options, and of no others:\n"
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
    yield "These options belong to one group (`ottla configs alter group:ID NAME=VALUE`). The broker's options `group.…` bound them.\n"
    yield "| option | type | default | bounds | what it does |"
    yield "|---|---|---|---|---|"
    for option in _acting(GROUP_OPTIONS.values()):
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
