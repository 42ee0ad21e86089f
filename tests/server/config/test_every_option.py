"""Options of Apache Kafka 4.4.0: each has an effect, is refused, or is listed as one without; none is silently ignored."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from ottla.server.config.options.broker_options import ACTED_ON
from ottla.server.config.options.known_options import BROKER_OPTIONS, find_option
from ottla.server.config.options.quota_options import DYNAMIC_ONLY
from ottla.server.config.static_config import static_config, warnings_of
from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError
from ottla.storage.topics.options import Option, OptionType, UpdateMode, format_value
from support.noted import each_case

ROOT = Path(__file__).parents[3]
OF_KAFKA = Path(__file__).with_name("options_of_apache_kafka.txt")

TABLES = ("server/config/options/", "server/config/sasl/options.py", "storage/topics/config.py")
"""Files that declare options."""
OF_CLIENTS = ("server/commands/", "server/embedded/sasl.py", "server/security/tls/client.py")
"""Files whose names are those of a client's options."""

IN_PIECES = {
    **dict.fromkeys(
        (
            f"{topic}.{what}"
            for topic in ("offsets.topic", "share.coordinator.state.topic", "transaction.state.log")
            for what in ("replication.factor", "segment.bytes", "num.partitions")
        ),
        "num.partitions",
    ),
    **dict.fromkeys(("share.coordinator.state.topic.min.isr", "transaction.state.log.min.isr"), "min.isr"),
    **{
        f"group.{kind}.{bound}.{what}": f'"{what}"'
        for kind, names in {
            **dict.fromkeys(
                ("consumer", "streams"), ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
            ),
            "share": (
                *("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"),
                *("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"),
            ),
        }.items()
        for what in names
        for bound in ("min", "max")
    },
    **{
        f"group.{name}": f'["{name}"]'
        for name in (
            *(f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")),
            "streams.acceptable.recovery.lag",
        )
    },
    **{f"group.{kind}.session.timeout.ms": ".session.timeout.ms" for kind in ("consumer", "share", "streams")},
    **{
        name: "sasl.oauthbearer.jwks.endpoint"
        for name in ACTED_ON
        if name.startswith("sasl.oauthbearer.jwks.endpoint.")
    },
}
"""Options whose name the code puts together, or which it reads by the name of the group's option -> a piece of the code."""

ONE_VALUE = {"group.share.assignors", "group.streams.assignors", "principal.builder.class"}
"""Options that accept only their default: every other value is refused, so no code reads them."""

ONLY_CHECKED = {"group.streams.num.warmup.replicas", "group.streams.rack.aware.assignment.tags"}
"""Options without effect that a rule between options reads."""

MUST_BE_SET = {"controller.listener.names": "", "node.id": "0", "process.roles": "broker"}
"""Options without a default in Apache Kafka -> the default here."""

UPDATES = {
    UpdateMode.READ_ONLY: "read-only",
    UpdateMode.PER_BROKER: "per-broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
}

OF_OTTLA = {"ottla.hold.heartbeats"}
"""Options that Apache Kafka does not have."""

INHERITED = {synonym.name: topic for topic in TOPIC_OPTIONS.values() for synonym in topic.synonyms}
ACTING = sorted(name for name, option in BROKER_OPTIONS.items() if option.acts)
LISTED = sorted(BROKER_OPTIONS.keys() - set(ACTING))


@cache
def source() -> str:
    """Return the source of the code that reads options."""
    texts = []
    for path in sorted(path for room in ("server", "storage") for path in (ROOT / room).rglob("*.py")):
        if not path.relative_to(ROOT).as_posix().startswith(TABLES + OF_CLIENTS):
            texts.append(path.read_text())
    return "\n".join(texts)


@cache
def attributes() -> frozenset[str]:
    return frozenset(re.findall(r"\.(\w+)\b", source()))


@cache
def names() -> frozenset[str]:
    return frozenset(re.findall(r'"([a-z0-9.]+)"', source()))


def is_read(option: Option) -> bool:
    return option.attribute in attributes() or option.name in names()


OF_KAFKA_LINES = {line.partition(" ")[0]: line for line in OF_KAFKA.read_text().splitlines() if line[0] != "#"}


def test_exactly_the_options_of_kafka_are_known() -> None:
    assert BROKER_OPTIONS.keys() == OF_KAFKA_LINES.keys() | DYNAMIC_ONLY | OF_OTTLA


@each_case("name", list(OF_KAFKA_LINES))
def test_type_update_and_default_are_those_of_kafka(name: str) -> None:
    option = BROKER_OPTIONS[name]
    _, *facts = OF_KAFKA_LINES[name].split(" ")
    default = format_value(option.default)
    if name in MUST_BE_SET:
        assert (facts[2], default) == ("-", MUST_BE_SET[name])
        default = "-"
    shown = "-" if option.default is None else default or '""'
    assert facts[:3] == [option.type.name, UPDATES[option.update] + ",hidden" * option.hidden, shown]


@each_case("name", [name for name, line in OF_KAFKA_LINES.items() if ".." in line.split(" ")[-1]])
def test_bounds_are_those_of_kafka(name: str) -> None:
    option = BROKER_OPTIONS[name]
    step = 0.1 if option.type is OptionType.DOUBLE else 1
    low, _, high = OF_KAFKA_LINES[name].split(" ")[4].partition("..")
    for text, beyond in ((low, -step), (high, step)):
        if text:
            edge = float(text) if option.type is OptionType.DOUBLE else int(text)
            assert option.parse(str(edge)) == edge
            with pytest.raises(ConfigError):
                option.parse(str(edge + beyond))


@each_case("name", ACTING)
def test_effective_options_are_read_somewhere(name: str) -> None:
    topic = INHERITED.get(name)
    if topic is not None:
        rules = (ROOT / "storage/topics/config.py").read_text()
        assert is_read(topic) or f"self.{topic.attribute}" in rules
    elif name in ONE_VALUE:
        with pytest.raises(ConfigError, match=re.escape(name)):
            static_config(overrides={name: "another"})
    elif name in IN_PIECES:
        assert IN_PIECES[name] in source()
    else:
        assert name in ACTED_ON
        assert is_read(ACTED_ON[name])


@each_case("name", LISTED)
def test_options_listed_as_without_effect_are_never_read_and_cause_warnings(name: str) -> None:
    option = BROKER_OPTIONS[name]
    assert is_read(option) == (name in ONLY_CHECKED)
    (line,) = warnings_of({name: format_value(option.default)})
    assert line.startswith(f"{name}: known to Kafka, but has no effect in Ottla")


def test_only_options_that_listeners_may_have_act_per_listener() -> None:
    for name in ACTING:
        for_one = find_option(f"listener.name.internal.{name}")
        assert for_one is not None
        told = list(warnings_of({for_one.name: "x"}))
        assert bool(told) is not for_one.acts
