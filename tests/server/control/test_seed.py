"""Seeds: their syntax, errors with their place, and that a broker gets all of one or nothing."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.client.values import partition_of
from ottla.server.config.static_config import static_config
from ottla.server.control.seed.fields import NESTED_MAX, SEED_BYTES_MAX, field_of
from ottla.server.control.seed.seed import RECORDS_MAX, Seed, export, seed_from, seed_from_text, seed_of
from ottla.server.control.seed.seeding import SeededTopic, SeedResult, apply_seed
from ottla.server.runtime.errors import ControlError, Kind
from support.broker.conversation import create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.registry_calls import RegistryCalls
from support.noted import each_case

SEED = """
topics:
  orders:
    partitions: 3
    configs: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0.9}
    records:
      - {key: order-1, value: {json: {total: 3, at: [1, null]}}, headers: {source: web, none: null}, timestamp: 1000}
      - {key: order-1}
      - {key: "n-{n}", value: x, repeat: 50}
  plain:
    configs: {retention.ms: -1}
    records:
      - {value: {hex: 00fF}, timestamp: 2026-01-31T12:00:00Z}
      - {value: {base64: AP8=}, key: {text: "{n}"}, timestamp: 2026-01-31}
      - value: ""
  bare:
groups:
  billing:
    orders: {0: 1, 2: latest}
    plain: earliest
cases:
  - trailing-marker
  - {name: group-epoch-near-its-end, topic: g}
"""


def planted(broker: ottla.Broker, seed: Seed | str | dict[str, Any], **options: Any) -> SeedResult:
    found = seed if isinstance(seed, Seed) else seed_from_text(seed, "s") if isinstance(seed, str) else seed_from(seed)
    return broker.run(partial(apply_seed, **options), broker.inner, found)


def names(broker: ottla.Broker) -> list[str]:
    return sorted(topic.name for topic in broker.inner.services.topics if not topic.is_internal)


def groups(client: RawClient) -> list[str]:
    return sorted(one.group_id for one in client.ask(ListGroupsRequest(states_filter=(), types_filter=())).groups)


def test_a_broker_contains_all_parts_of_a_seed(broker: ottla.Broker, client: RawClient) -> None:
    done = planted(broker, SEED)
    assert done.topics == (SeededTopic("orders", 3, 52), SeededTopic("plain", 1, 3), SeededTopic("bare", 1, 0))
    assert (done.groups, done.cases) == (("billing",), ("trailing-marker", "g"))
    assert names(broker) == ["bare", "g", "orders", "plain", "trailing-marker"]
    assert groups(client) == ["billing", "g-group"]
    found = {index: records_of(fetch(client, "orders", 0, index)) for index in range(3)}
    for index, rows in found.items():
        assert [row[0] for row in rows] == list(range(len(rows)))
        assert all(row[1] is not None and partition_of(row[1], 3) == index for row in rows)
    home = partition_of(b"order-1", 3)
    assert found[home][:2] == [(0, b"order-1", b'{"total":3,"at":[1,null]}'), (1, b"order-1", None)]
    keys = sorted(key for rows in found.values() for _, key, _ in rows if key and key.startswith(b"n-"))
    assert keys == sorted(b"n-%d" % number for number in range(50))
    assert records_of(fetch(client, "plain", 0)) == [(0, None, b"\0\xff"), (1, b"{n}", b"\0\xff"), (2, None, b"")]
    log = broker.inner.services.topics.partition("plain", 0).log
    stamps = [record.timestamp for _, batch in log.segments.active.headers() for record in _records(client, "plain")]
    assert stamps[:2] == [1_769_860_800_000, 1_769_817_600_000]
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="billing", topics=None),))
    (answer,) = client.ask(asked, 9).groups
    committed = {
        (topic.name, row.partition_index): row.committed_offset for topic in answer.topics for row in topic.partitions
    }
    assert committed == {("orders", 0): 1, ("orders", 2): len(found[2]), ("plain", 0): 0}


def _records(client: RawClient, topic: str) -> Any:
    from ottla.protocol.records import batches

    return [record for batch in batches(fetch(client, topic, 0).records) for record in batch.records()]  # type: ignore[arg-type]


def test_clients_append_after_a_seed_and_a_restart_keeps_it(tmp_path: Path) -> None:
    from support.broker.conversation import address

    with ottla.Broker(tmp_path / "data") as broker:
        planted(broker, SEED)
        broker.crash()
        with RawClient(*address(broker)) as client:
            assert produce(client, "plain", ("k", "v")).base_offset == 3
        broker.restart()
        assert names(broker) == ["bare", "g", "orders", "plain", "trailing-marker"]


def test_times_may_be_relative_to_the_seeding(broker: ottla.Broker, client: RawClient) -> None:
    broker.advance_clock(1)
    planted(broker, "topics: {t: {records: [{value: a, timestamp: -25h}, {value: b, timestamp: -90s}, {value: c}]}}")
    old, late, now = (record.timestamp for record in _records(client, "t"))
    assert (now - old, now - late) == (25 * 3_600_000, 90_000)


def test_json_mappings_and_yaml_are_equivalent(broker: ottla.Broker) -> None:
    said = {"topics": {"t": {"partitions": 2, "records": [{"key": "k", "value": {"json": [1]}, "partition": 1}]}}}
    expected = SeedResult((SeededTopic("t", 2, 1),))
    assert planted(broker, {"topics": {"t": said["topics"]["t"] | {"records": ()}}}) == SeedResult(
        (SeededTopic("t", 2, 0),)
    )
    broker.reset()
    assert planted(broker, said) == expected
    broker.reset()
    assert planted(broker, json.dumps(said, indent="\t")) == expected


def test_an_existing_seed_is_left_alone(broker: ottla.Broker) -> None:
    planted(broker, SEED)
    assert planted(broker, SEED, unless_there=True) == SeedResult(was_there=True)
    with pytest.raises(ControlError, match=r"s line 3: topics\.orders: topic orders already exists") as refused:
        planted(broker, SEED)
    assert refused.value.kind is Kind.CONFLICT


def test_a_partly_existing_seed_is_refused(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "plain")
    with pytest.raises(ControlError, match=r"topics\.plain: topic plain already exists"):
        planted(broker, SEED)
    assert planted(broker, SEED, unless_there=True) == SeedResult(was_there=True)
    assert names(broker) == ["plain"]


def test_a_brokers_content_is_exported_as_a_seed(broker: ottla.Broker, client: RawClient) -> None:
    planted(broker, "topics: {t: {partitions: 2, configs: {retention.ms: 5}}, u: }")
    said = broker.run(export, broker.inner)
    assert said == {
        "topics": {
            "t": {"partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "5"}},
            "u": {"partitions": 1, "replication_factor": 1},
        }
    }
    broker.reset()
    assert planted(broker, said).topics == (SeededTopic("t", 2, 0), SeededTopic("u", 1, 0))


# Refusals that need no broker: text -> error.
REFUSED: dict[str, tuple[str, str]] = {
    "nothing": ("", "s line 1: the seed: the seed is empty; fields: topics, groups, cases, acls, quotas, schemas"),
    "a list": ("- a", "s line 1: the seed: expected a mapping, found a list"),
    "another field": ("topcs: {}", "s line 1: topcs: unknown field; .*; did you mean 'topics'?"),
    "no ACL": ("acls:\n- User:a allow", r"s line 2: acls\[0\]: 'User:a allow': invalid ACL; expected PRINCIPAL .*"),
    "no YAML": ("a: b: c", "s line 1: invalid YAML: mapping values are not allowed .*"),
    "no JSON": ('{"topics": {},\n}', "s line (1|2): invalid JSON: .*"),
    "a tab": ("topics:\n\tt: 1", "s line 2: invalid YAML: .*"),
    "a tag": (
        "topics: !!python/object:os.system {}",
        "s line 1: topics: tag !!python/object:os.system is not supported",
    ),
    "an alias": ("topics: {a: &a {}, b: *a}", r"s line 1: \*a: aliases are not supported; repeat the content"),
    "a topic twice": ("topics:\n  a:\n  a:", r"s line 3: topics\.a: duplicate key"),
    "a topic twice in JSON": ('{"topics": {"a": {}, "a": {}}}', "s: duplicate key 'a' in a mapping"),
    "no partitions": (
        "topics: {t: {partitions: 0}}",
        r".*partitions: expected a whole number from 1 to 10000, found a number, 0",
    ),
    "half a partition": ("topics: {t: {partitions: 1.5}}", ".*found a number, 1.5"),
    "partitions as a text": ("topics: {t: {partitions: '3'}}", ".*found a string, '3'"),
    "partitions as a boolean": ("topics: {t: {partitions: true}}", ".*found a boolean, True"),
    "records as a mapping": (
        "topics: {t: {records: {}}}",
        r"s line 1: topics\.t\.records: expected a list, found a mapping",
    ),
    "an empty record": (
        "topics: {t: {records: [{}]}}",
        r".*records\[0\]: the record is empty; fields: key, .*",
    ),
    "a field of a record": ("topics: {t: {records: [{vaule: x}]}}", ".*; did you mean 'value'?"),
    "a number": (
        "topics: {t: {records: [{key: 1}]}}",
        r".*key: expected a string, found a number, 1; quote it, or write {json: ...}",
    ),
    "two forms": (
        "topics: {t: {records: [{key: {hex: a, text: b}}]}}",
        ".*key: expected one of text, json, hex, base64, found a mapping",
    ),
    "half a byte": (
        "topics: {t: {records: [{key: {hex: abc}}]}}",
        ".*expected an even number of hexadecimal digits, found a string, 'abc'",
    ),
    "no base64": ("topics: {t: {records: [{key: {base64: '%'}}]}}", ".*expected base64, .*"),
    "not a number": ("topics: {t: {records: [{key: {json: .nan}}]}}", ".*expected a JSON number.*"),
    "a time that is none": (
        "topics: {t: {records: [{value: a, timestamp: soon}]}}",
        r".*timestamp: expected a time, e\.g\. 2026-.*",
    ),
    "a day that is none": (
        "topics: {t: {records: [{value: a, timestamp: 2026-02-31}]}}",
        "s: invalid YAML: day is out of range.*",
    ),
    "before time": (
        "topics: {t: {records: [{value: a, timestamp: 1969-12-31}]}}",
        ".*expected a time not before 1970.*",
    ),
    "a negative time": (
        "topics: {t: {records: [{value: a, timestamp: -1}]}}",
        ".*from 0 to 253402300799999, found a number, -1",
    ),
    "too often": (
        f"topics: {{t: {{records: [{{value: a, repeat: {RECORDS_MAX + 1}}}]}}}}",
        ".*repeat: expected a whole number from 1 to .*",
    ),
    "too many": (
        f"topics: {{t: {{records: [{{value: a, repeat: {RECORDS_MAX}}}, {{value: b}}]}}}}",
        r".*records\[1\]: too many records, counting repetitions \(limit 1000000\).*",
    ),
    "too much": (
        f"topics: {{t: {{records: [{{value: {'a' * 1000}, repeat: 300000}}]}}}}",
        ".*limit 268435456 bytes.*",
    ),
    "a partition's name": (
        "groups: {g: {t: {one: 1}}}",
        r".*groups\.g\.t\.one: expected a partition number as name",
    ),
    "an offset": ("groups: {g: {t: last}}", ".*expected an offset, earliest or latest, found a string, 'last'"),
    "a negative offset": ("groups: {g: {t: -1}}", ".*found a number, -1"),
    "a group without a name": ("groups: {'': {good: 1}}", "s line 1: groups.: group name is empty"),
    "a case": (
        "cases: [trailing-markr]",
        r"s line 1: cases\[0\]: case 'trailing-markr' not found.*; did you mean 'trailing-marker'?",
    ),
    "a case without a name": ("cases: [{topic: t}]", r".*cases\[0\]: a case requires a name"),
    "a case's topic twice": (
        "topics: {t: }\ncases: [{name: aborted-only, topic: t}]",
        r"s line 2: cases\[0\]: duplicate topic t",
    ),
    "a config of a list": ("topics: {t: {configs: {retention.ms: [1]}}}", ".*"),
    "a subject": ("schemas: {'': int}", r"s line 1: schemas\.: The specified subject '' is not a valid subject"),
    "a field of a schema": ("schemas: {s: {schema: int, knid: JSON}}", ".*did you mean 'kind'?"),
    "a kind of schemas": (
        "schemas: {s: {schema: int, kind: XML}}",
        ".*expected one of AVRO, JSON, PROTOBUF, found 'XML'",
    ),
    "a schema that is none": ("schemas: {s: 7}", r"s line 1: schemas\.s: expected a string .*found a number, 7"),
    "references": ("schemas: {s: {schema: int, references: [1]}}", ".*references: expected an array of objects"),
    "depth": ("[" * (NESTED_MAX + 2), r"s line 1: nested too deeply \(limit 100 levels\)"),
    "depth in JSON": ('{"a":' * 5_000, "s.*: (n|i).*"),
}


@each_case("text, said", REFUSED.values(), ids=REFUSED)
def test_errors_are_reported_with_their_position(text: str, said: str) -> None:
    with pytest.raises(ControlError) as refused:
        seed_from_text(text, "s")
    sentence = str(refused.value)
    assert "\n" not in sentence and len(sentence) < 400
    assert re.fullmatch(said.replace("?", r"\?") if said.endswith("?") else said, sentence), sentence


def test_a_seed_that_is_too_long_is_refused() -> None:
    with pytest.raises(ControlError, match=f"limit {SEED_BYTES_MAX}"):
        seed_from_text("#" * (SEED_BYTES_MAX + 1), "s")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"cannot read .*none\.yaml: No such file"):
        seed_from(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"topics: {\xff: }")
    with pytest.raises(ControlError, match=r"latin\.yaml is not UTF-8 at byte 9"):
        seed_from(tmp_path / "latin.yaml")


SCHEMAS = """
schemas:
  item-value:
    - {type: record, name: Item, fields: [{name: x, type: int}]}
    - {type: record, name: Item, fields: [{name: x, type: int}, {name: y, type: int, default: 0}]}
  order-value:
    schema: {type: record, name: Order, fields: [{name: item, type: Item}]}
    references: [{name: Item, subject: item-value, version: 2}]
  plain: '"string"'
"""


def test_a_seed_registers_schemas() -> None:
    with ottla.Broker(schema_registry=True) as broker:
        assert planted(broker, SCHEMAS).subjects == ("item-value", "order-value", "plain")
        registry = RegistryCalls.of(broker)
        assert registry.get("/subjects/item-value/versions") == [1, 2]
        assert registry.get("/schemas/ids/3")["references"] == [{"name": "Item", "subject": "item-value", "version": 2}]
        with pytest.raises(
            ControlError, match=r"s line 4: schemas\.item-value\[0\]: subject item-value already exists"
        ):
            planted(broker, SCHEMAS)
        assert planted(broker, SCHEMAS, unless_there=True) == SeedResult(was_there=True)


def test_a_reset_registers_the_schemas_of_the_seed_again() -> None:
    with ottla.Broker(seed={"schemas": {"s": '"int"'}}, schema_registry=True) as broker:
        registry = RegistryCalls.of(broker)
        registry.register("t", '"long"')
        broker.reset()
        assert registry.get("/subjects") == ["s"]


# Refusals by a broker: text -> error. Nothing of the seed remains.
REFUSED_BY_A_BROKER: dict[str, tuple[str, str]] = {
    "a name": ("topics: {good: , a b: }", r"s line 1: topics\.a b: Topic name is invalid: 'a b' contains .*"),
    "names that collide": ("topics: {a.b: , a_b: }", "Topic 'a_b' collides with topic a.b of the seed"),
    "the broker's own name": ("topics: {__consumer_offsets: }", "__consumer_offsets is an internal topic"),
    "a config": (
        "topics:\n  t:\n    configs:\n      retention.mss: 1",
        r"s line 4: topics\.t\.configs\.retention\.mss: .*did you mean 'retention\.ms'",
    ),
    "a config's value": ("topics: {t: {configs: {retention.ms: abc}}}", r"configs\.retention\.ms: .*abc"),
    "configs together": (
        "topics: {t: {configs: {min.compaction.lag.ms: 9, max.compaction.lag.ms: 5}}}",
        r"topics\.t: ",
    ),
    "replicas": ("topics: {t: {replication_factor: 3}}", r"topics\.t: .*eplication"),
    "a partition": (
        "topics: {t: {records: [{value: a, partition: 1}]}}",
        r"records\[0\]: partition 1 not found; the topic has 0 to 0",
    ),
    "an invalid schema": ("topics: {t: }\nschemas: {s: '\"int\"', u: '{'}", r"s line 2: schemas\.u: Invalid schema: "),
    "an incompatible schema": (
        "schemas: {s: ['\"int\"', '\"string\"']}",
        r"schemas\.s\[1\]: Schema being registered is incompatible",
    ),
    "a reference": (
        "schemas: {s: {schema: int, references: [{name: a, subject: b, version: 1}]}}",
        'No schema reference found for subject "b" and version 1',
    ),
    "no key": (
        "topics: {t: {configs: {cleanup.policy: compact}, records: [{value: a}]}}",
        "a record of a compacted topic requires a key",
    ),
    "a large record": (
        "topics: {t: {configs: {max.message.bytes: 100}, records: [{value: " + "a" * 200 + "}]}}",
        "limit max.message.bytes=100",
    ),
    "a time in the future": ("topics: {good: , t: {records: [{value: a, timestamp: 2999-01-01}]}}", r"topics\.t: "),
    "a group's topic": ("topics: {good: }\ngroups: {g: {godo: 1}}", "topic 'godo' not found; did you mean 'good'"),
    "a group's partition": (
        "topics: {good: }\ngroups: {g: {good: {1: 1}}}",
        "partition 1 not found; good has 0 to 0",
    ),
    "a case's topic": ("topics: {good: }\ncases: [{name: aborted-only, topic: a/b}]", "Topic name is invalid"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED_BY_A_BROKER.values(), ids=REFUSED_BY_A_BROKER)
def test_a_refused_seed_leaves_nothing(text: str, said: str, broker: ottla.Broker, client: RawClient) -> None:
    with pytest.raises(ControlError, match=said) as refused:
        planted(broker, text)
    assert "\n" not in str(refused.value)
    assert (names(broker), groups(client)) == ([], [])


def test_a_partly_failed_seed_is_reverted(broker: ottla.Broker, client: RawClient) -> None:
    """Another client created the last case's group while the seed was applied."""
    text = "topics: {a: {records: [{value: x}]}}\ncases: [{name: group-epoch-near-its-end, topic: g}]\n"
    planted(broker, text)

    async def forget() -> None:
        for name in ("a", "g"):
            topic = broker.inner.services.topics.get(name)
            assert topic is not None
            await broker.inner.services.topic_admin.take_back(topic)

    broker.run(forget)
    with pytest.raises(ControlError, match="group g-group already exists"):
        planted(broker, text)
    assert (names(broker), groups(client)) == ([], ["g-group"])


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["topics", "groups", "cases", "records", "configs", "key", "value", "t", "0", "repeat", "timestamp"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_ANYTHING)
def test_any_mapping_is_a_valid_seed_or_refused(value: Any) -> None:
    try:
        seed_of(field_of(value, "s"))
    except ControlError as error:
        assert "\n" not in str(error)


# The seed of a starting broker.


def test_a_broker_is_seeded_at_start_and_after_each_reset(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path / "data", seed={"topics": {"a": {"records": [{"value": "x"}]}, "b": {}}}) as broker:
        assert names(broker) == ["a", "b"]

        async def lose(name: str) -> None:
            topic = broker.inner.services.topics.get(name)
            assert topic is not None
            await broker.inner.services.topic_admin.take_back(topic)

        broker.run(lose, "b")
        broker.restart()
        assert names(broker) == ["a"], "a restart is none of its beginnings"
        broker.reset()
        assert names(broker) == ["a", "b"]


def test_a_restored_snapshot_is_not_seeded(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path / "other") as broker:
        broker.seed({"topics": {"c": {}}})
        broker.snapshot(tmp_path / "snapshot")
    with ottla.Broker(tmp_path / "data", seed={"topics": {"a": {}}}) as broker:
        broker.restore(tmp_path / "snapshot")
        assert names(broker) == ["c"]
        broker.reset()
        assert names(broker) == ["a"]


def test_a_later_start_on_the_same_data_does_not_seed_again(tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text("topics: {a: , b: }")
    for _ in range(2):
        with ottla.Broker(tmp_path / "data", seed=tmp_path / "seed.yaml") as broker:
            assert names(broker) == ["a", "b"]


def test_an_invalid_seed_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"seed: topcs: unknown field"):
        ottla.Broker(tmp_path / "data", seed={"topcs": {}})
    with pytest.raises(TypeError, match=r"seed: expected str or PathLike or Mapping or None, found 3"):
        ottla.Broker(seed=3)  # type: ignore[arg-type]
    with (
        pytest.raises(ControlError, match="partition 1 not found; the topic has 0 to 0"),
        ottla.Broker(tmp_path / "data", seed={"topics": {"t": {"records": [{"value": "x", "partition": 1}]}}}),
    ):
        pass
    with ottla.Broker(tmp_path / "data") as broker:
        assert names(broker) == []


def test_a_program_applies_a_seed_and_loads_a_case(broker: ottla.Broker) -> None:
    assert broker.seed({"topics": {"t": {}}}).topics == (SeededTopic("t", 1, 0),)
    assert broker.export_seed() == {"topics": {"t": {"partitions": 1, "replication_factor": 1}}}
    case = broker.load_case("trailing-marker", topic="u")
    assert (case.topic, case.end_offset, len(case.read_committed)) == ("u", 4, 3)
    assert broker.cases()[0].name == "trailing-marker"


async def test_a_failed_seeding_leaves_the_ports_free(tmp_path: Path) -> None:
    begun = 0

    async def prepare(_: object) -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            raise ControlError(Kind.FAILED, "not now")

    static = static_config(flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    async with run_supervisor(static, prepare=prepare) as supervisor:
        at = supervisor.bootstrap
        with pytest.raises(ControlError, match="not now"):
            await supervisor.reset()
        assert supervisor.state == "down"
        await supervisor.restart()
        assert (supervisor.state, supervisor.bootstrap, begun) == ("serving", at, 2)
    with pytest.raises(ControlError, match="never"):
        async with run_supervisor(static, prepare=_never):
            pass
    async with run_supervisor(static) as supervisor:
        assert supervisor.state == "serving"


async def _never(_: object) -> None:
    raise ControlError(Kind.FAILED, "never")
