"""Answers of a fresh broker: its APIs, features and options, and its verdicts on values of topic options."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import api_versions, create_topics, describe_configs, incremental_alter_configs
from ottla.server.client.connection import Client

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from .messages import api_names
from .tables import Table, differences

TIMEOUT_S = 60.0
NAME = "release"
"""The topic, group and metrics subscription that are asked about."""
RESOURCES = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
"""Resource types of DescribeConfigs."""
DEFAULT_CONFIG = 5
TYPES = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
WORDS = (
    "none x NaN true FALSE yes delete compact compact,delete gzip zstd producer CreateTime LogAppendTime * 0:1 1:2,0:1"
)
NUMBERS = "-131073 -2 -1 0 1 9 18 22 1000 1048576 0.5 1.5 1e7 2147483639 2147483647 2147483648"
VALUES = ("", " ", *WORDS.split(), *NUMBERS.split(), str(2**63 - 1), str(2**63))
ACCEPTED = "accepted"
Option = describe_configs.DescribeConfigsResourceResult


@contextmanager
def broker(version: str) -> Iterator[Client]:
    """Start a broker of this release with a topic and a metrics subscription, and yield a connection to it."""
    with ApacheKafkaProcess(version=version) as process, Client("127.0.0.1", process.port, timeout_s=TIMEOUT_S) as one:
        topic = create_topics.CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
        one.ask(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000))
        alter(one, "client-metrics", "metrics", "", validate_only=False)
        yield one


def answers(old: str, new: str) -> Table:
    """Compare what fresh brokers of two releases say of themselves."""
    sides = {version: said(version) for version in (old, new)}
    kinds = {version: Counter(name.partition(" ")[0] for name in side) for version, side in sides.items()}
    notes = [
        f"{version}: " + ", ".join(f"{kind} {count}" for kind, count in some.items()) for version, some in kinds.items()
    ]
    return Table("Answers of a fresh broker", ("answer", old, new), differences(sides[old], sides[new]), notes)


def said(version: str) -> dict[str, str]:
    """Return what a fresh broker says of its APIs, features and options, by kind and name."""
    found = {}
    names = api_names(jars(version))
    with broker(version) as client:
        request = api_versions.ApiVersionsRequest(client_software_name="compat", client_software_version="1")
        versions = client.ask(request, 4)
        finalized = {one.name: one.max_version_level for one in versions.finalized_features}
        for api in versions.api_keys:
            found[f"api {api.api_key:2} {names.get(api.api_key, '')}"] = f"{api.min_version}-{api.max_version}"
        for feature in versions.supported_features:
            levels = f"{feature.min_version}-{feature.max_version}, finalized {finalized.get(feature.name, 0)}"
            found[f"feature {feature.name}"] = levels
        for resource in RESOURCES:
            for option in described(client, resource):
                found[f"{resource} {option.name}"] = facts(option)
    return found


def described(client: Client, resource: str) -> tuple[Option, ...]:
    which = describe_configs.DescribeConfigsResource(
        resource_type=RESOURCES[resource],
        resource_name="0" if resource == "broker" else NAME,
        configuration_keys=None,
    )
    (result,) = client.ask(
        describe_configs.DescribeConfigsRequest(resources=(which,), include_synonyms=True, include_documentation=True),
        4,
    ).results
    if result.error_code:
        raise RuntimeError(f"DescribeConfigs of {resource}: {result.error_message}")
    return tuple(result.configs)


def facts(option: Option) -> str:
    """Return type, default, whether it can change, and synonyms; then the documentation. Values that a run chose are left out."""
    value = "null" if option.value is None else option.value
    synonyms = [one.name for one in option.synonyms if one.name != option.name]
    shown = [TYPES[option.config_type]]
    shown += [f"default {value}" if option.config_source == DEFAULT_CONFIG else "set by this run"]
    shown += ["read-only" if option.read_only else "dynamic", *(["sensitive"] if option.is_sensitive else [])]
    shown += [f"synonyms {', '.join(synonyms)}"] if synonyms else []
    return f"{'; '.join(shown)}: {re.sub(r'<[^>]+>', '', option.documentation or '')}"


def verdicts(old: str, new: str) -> Table:
    """Compare the verdicts of two releases on values of all topic options."""
    sides = {version: judged(version) for version in (old, new)}
    notes = [f"{version}: {len(side)} options, {len(VALUES)} values of each" for version, side in sides.items()]
    return Table("Verdicts on topic options", ("option", "value", old, new), compare(sides[old], sides[new]), notes)


def judged(version: str) -> dict[str, dict[str, str]]:
    """Return a fresh broker's verdict on each value of each topic option that it describes."""
    with broker(version) as client:
        return {
            option.name: {value: alter(client, "topic", option.name, value, validate_only=True) for value in VALUES}
            for option in described(client, "topic")
        }


def compare(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> list[tuple[str, ...]]:
    """Return a row per verdict that differs, and a row per option that only one release has, with what it accepts."""
    rows: list[tuple[str, ...]] = []
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new:
            rows += [(name, *row) for row in differences(old[name], new[name])]
            continue
        accepts = [value for value, verdict in (old.get(name) or new[name]).items() if verdict == ACCEPTED]
        text = f"accepts {', '.join(map(repr, accepts)) or 'none of the values'}"
        rows.append((name, "all", *((text, "") if name in old else ("", text))))
    return rows


def alter(client: Client, resource: str, name: str, value: str, *, validate_only: bool) -> str:
    """Set an option, or ask whether it can be set; return ACCEPTED, or error and message."""
    config = incremental_alter_configs.AlterableConfig(name=name, value=value)
    which = incremental_alter_configs.AlterConfigsResource(
        resource_type=RESOURCES[resource], resource_name=NAME, configs=(config,)
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(which,), validate_only=validate_only)
    (answer,) = client.ask(request, 1).responses
    return f"{ErrorCode(answer.error_code).name}: {answer.error_message}" if answer.error_code else ACCEPTED
