"""The broker's configuration: the source that wins, the errors of bad values, and the defaults of topics."""

import re

import pytest

from ottla.server.config.broker_config import BrokerConfig, ConfigSource
from ottla.server.config.listeners import ListenerConfig
from ottla.server.config.live_config import usable
from ottla.server.config.options.broker_options import ACTED_ON
from ottla.server.config.options.known_options import BROKER_OPTIONS, find_option, known_options, reason_of
from ottla.server.config.options.security_options import STANDARD, Authorization
from ottla.server.config.properties import Properties, parse_server_properties
from ottla.server.config.static_config import PROFILES, static_config, warnings_of
from ottla.server.groups.settings import GroupSettings
from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError, LogConfig
from support.noted import each_case


def file(text: str) -> Properties:
    return parse_server_properties(text)


# Precedence


def test_override_beats_flag_beats_file_beats_profile_beats_default() -> None:
    name = "log.cleaner.backoff.ms"
    sources = {"file": file(f"{name}=3"), "flags": {name: "2"}, "overrides": {name: "1"}}
    for expected, weaker in [(1, "overrides"), (2, "flags"), (3, "file"), (100, "profile")]:
        static = static_config(profile="dev", **sources)  # type: ignore[arg-type]
        assert static.node(0).log_cleaner_backoff_ms == expected
        sources.pop(weaker, None)
    assert static_config().node(0).log_cleaner_backoff_ms == 15_000


def test_dynamic_node_values_beat_cluster_values_and_those_beat_static_values() -> None:
    static = static_config(overrides={"max.connections": "1"})
    both = static.node(0, cluster_dynamic={"max.connections": "2"}, node_dynamic={"max.connections": "3"})
    assert both.max_connections == 3
    assert static.node(0, cluster_dynamic={"max.connections": "2"}).max_connections == 2
    assert both.with_dynamic({}, {}).max_connections == 1


def test_every_option_has_a_value() -> None:
    config = BrokerConfig.from_texts()
    for name, option in BROKER_OPTIONS.items():
        assert config.value(name) == option.default
    with pytest.raises(KeyError):
        config.value("no.such.option")


def test_options_without_an_attribute_are_typed() -> None:
    config = BrokerConfig.from_texts({"transaction.state.log.num.partitions": "7"})
    assert config.value("transaction.state.log.num.partitions") == 7


def test_all_broker_options_of_kafka_are_known_once() -> None:
    inherited = {synonym.name for topic in TOPIC_OPTIONS.values() for synonym in topic.synonyms}
    known = known_options().keys()
    assert not ACTED_ON.keys() & known
    assert not inherited & known
    assert not inherited & ACTED_ON.keys()
    # Their names are compared in `test_every_option`; Apache Kafka 4.4.0 describes as many of them.
    assert sum(not option.hidden for option in BROKER_OPTIONS.values()) == 350


def test_defaults_of_all_options_pass_their_own_checks() -> None:
    for option in BROKER_OPTIONS.values():
        option.validate(option.default)


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_are_valid_and_consist_of_effective_options(profile: str) -> None:
    assert static_config(profile=profile).warnings == ()


def test_cordoned_directories_must_be_in_log_dirs() -> None:
    texts = {"log.dirs": "/a,/b/"}
    assert not BrokerConfig.from_texts(texts).cordoned_dirs
    assert BrokerConfig.from_texts(texts | {"cordoned.log.dirs": "/b"}).cordoned_dirs == {"/b"}
    assert BrokerConfig.from_texts(texts | {"cordoned.log.dirs": "*"}).cordoned_dirs == {"/a", "/b"}
    with pytest.raises(
        ConfigError, match=r"^Invalid value /c for configuration cordoned.log.dirs: each must be one of"
    ):
        BrokerConfig.from_texts(texts | {"cordoned.log.dirs": "/c"})


# Defaults of topics


@pytest.mark.scenario(187)
@each_case(
    "texts, attribute, value",
    [
        ({}, "retention_ms", 604_800_000),
        ({"log.retention.hours": "1"}, "retention_ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention_ms", 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, "retention_ms", 3),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.roll.hours": "2"}, "segment_ms", 7_200_000),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "5"}, "flush_ms", 5),
        ({"log.flush.scheduler.interval.ms": "5", "log.flush.interval.ms": "6"}, "flush_ms", 6),
        ({"message.max.bytes": "7"}, "max_message_bytes", 7),
        ({"max.decompressed.message.bytes": "7"}, "max_decompressed_message_bytes", 7),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", ("compact",)),
        ({"log.cleanup.policy": ""}, "cleanup_policy", ()),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
    ],
)
def test_topics_inherit_from_the_broker(texts: dict[str, str], attribute: str, value: object) -> None:
    assert getattr(BrokerConfig.from_texts(texts).log_defaults, attribute) == value


def test_kafkas_topic_defaults_come_out_of_kafkas_broker_defaults() -> None:
    assert BrokerConfig.from_texts().log_defaults == LogConfig()


@pytest.mark.scenario(187)
def test_a_stronger_unit_wins_from_any_source() -> None:
    config = BrokerConfig.from_texts({"log.retention.ms": "5"}, node_dynamic={"log.retention.hours": "1"})
    assert config.log_defaults.retention_ms == 5


def test_a_topic_uses_its_overrides_and_survives_invalid_stored_ones() -> None:
    config = BrokerConfig.from_texts({"log.retention.ms": "5"})
    topic = config.topic_config({"segment.bytes": "1", "flush.ms": "9"})
    assert (topic.retention_ms, topic.flush_ms, topic.segment_bytes) == (5, 9, 1 << 30)


def test_internal_topics_are_compacted_in_small_segments() -> None:
    config = BrokerConfig.from_texts({"offsets.topic.num.partitions": "3", "offsets.topic.segment.bytes": "100"})
    partitions, factor, configs = config.internal_topic("__consumer_offsets")
    assert (partitions, factor) == (3, 3)
    assert config.topic_config(configs).segment_bytes == 100
    assert config.topic_config(configs).is_compact
    _, _, transactions = config.internal_topic("__transaction_state")
    assert config.topic_config(transactions).min_insync_replicas == 2
    assert config.topic_config(transactions).segment_bytes == 100 << 20
    with pytest.raises(KeyError):
        config.internal_topic("orders")


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_downgrade"),
    [
        ("Bidirectional", True, True),
        ("upgrade", True, False),
        ("DOWNGRADE", False, True),
        ("disabled", False, False),
    ],
)
def test_the_migration_policy_determines_allowed_group_changes(
    policy: str, may_upgrade: bool, may_downgrade: bool
) -> None:
    config = BrokerConfig.from_texts({"group.consumer.migration.policy": policy})
    settings = GroupSettings.from_config(config)
    assert (settings.may_upgrade, settings.may_downgrade) == (may_upgrade, may_downgrade)


# Refusals


@pytest.mark.scenario(186)
@each_case(
    "texts, parts",
    [
        ({"num.partitions": "0"}, ["0", "num.partitions", "at least 1"]),
        ({"log.segment.bytes": "14"}, ["14", "log.segment.bytes", "1048576"]),
        ({"log.retention.minutes": "x"}, ["x", "log.retention.minutes", "INT"]),
        ({"log.retention.minutes": "0"}, ["0", "log.retention.ms", "-1", "at least 1"]),
        ({"log.dirs": ""}, ["log.dirs", "directory"]),
        ({"process.roles": "controller"}, ["controller", "process.roles", "broker"]),
        ({"process.roles": "broker,zookeeper"}, ["zookeeper", "process.roles"]),
        ({"node.id": "1", "broker.id": "2"}, ["2", "broker.id", "node.id=1"]),
        ({"queued.max.request.bytes": "5"}, ["5", "queued.max.request.bytes", "socket.request.max.bytes=104857600"]),
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            ["9", "group.min.session.timeout.ms", "group.max.session.timeout.ms=8"],
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            [
                "group.consumer.session.timeout.ms",
                "greater than or equal to group.consumer.min.session.timeout.ms=45000",
            ],
        ),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            ["group.consumer.max.session.timeout.ms", "60000", "group.consumer.session.timeout.ms=60001"],
        ),
        (
            {"group.consumer.min.session.timeout.ms": "1", "group.consumer.session.timeout.ms": "5000"},
            ["5000", "group.consumer.heartbeat.interval.ms", "less than group.consumer.session.timeout.ms=5000"],
        ),
        (
            {"group.consumer.max.heartbeat.interval.ms": "4999"},
            ["group.consumer.max.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms=5000"],
        ),
        (
            {"group.consumer.assignment.interval.ms": "15001"},
            ["group.consumer.max.assignment.interval.ms", "group.consumer.assignment.interval.ms=15001"],
        ),
        ({"group.share.session.timeout.ms": "60001"}, ["60000", "group.share.session.timeout.ms=60001"]),
        ({"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"}, ["less than", "5000"]),
        ({"group.share.delivery.count.limit": "2", "group.share.min.delivery.count.limit": "3"}, ["count.limit=3"]),
        ({"group.share.record.lock.duration.ms": "60001"}, ["group.share.record.lock.duration.ms=60001", "60000"]),
        ({"group.share.partition.max.record.locks": "99"}, ["99", "group.share.partition.max.record.locks"]),
        ({"group.share.assignors": "range"}, ["group.share.assignors", "must be simple"]),
        (
            {"group.streams.min.session.timeout.ms": "1", "group.streams.session.timeout.ms": "5000"},
            ["group.streams.heartbeat.interval.ms", "less than group.streams.session.timeout.ms=5000"],
        ),
        ({"group.streams.num.warmup.replicas": "21"}, ["20", "group.streams.max.", "num.warmup.replicas=21"]),
        (
            {"group.streams.task.offset.interval.ms": "14999"},
            ["14999", "greater than or equal to group.streams.min.task.offset.interval.ms=15000"],
        ),
        ({"group.streams.rack.aware.assignment.tags": "a, b,a"}, ["a, b,a", "must not contain duplicate tag keys"]),
        ({"group.streams.assignors": ""}, ["group.streams.assignors", "must be sticky"]),
        ({"group.streams.assignors": "sticky,x"}, ["sticky,x", "group.streams.assignors"]),
        ({"group.consumer.assignors": ""}, ["group.consumer.assignors", "uniform and range"]),
        ({"group.consumer.assignors": "sticky"}, ["sticky", "group.consumer.assignors"]),
        ({"group.consumer.migration.policy": "both"}, ["both", "group.consumer.migration.policy", "bidirectional"]),
        ({"group.coordinator.rebalance.protocols": "consumer"}, ["consumer", "'classic' protocol is not supported"]),
        ({"log.cleaner.threads": "0"}, ["0", "log.cleaner.threads", "at least 1"]),
        (
            {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"},
            ["2097152", "log.cleaner.dedupe.buffer.size", "1048576", "log.cleaner.threads=2"],
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            ["9", "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms=8"],
        ),
        ({"max.connections.per.ip": "0"}, ["0", "max.connections.per.ip", "max.connections.per.ip.overrides is set"]),
        ({"max.connections.per.ip.overrides": "host"}, ["host", "max.connections.per.ip.overrides", "HOST:NUMBER"]),
        ({"listeners": "9092"}, ["9092", "listeners"]),
        # without effect, and still of a type
        ({"num.io.threads": "0"}, ["0", "num.io.threads", "at least 1"]),
        ({"ssl.client.auth": "maybe"}, ["maybe", "ssl.client.auth", "required, requested, none"]),
        ({"group.share.max.size": "1001"}, ["1001", "group.share.max.size", "between 1 and 1000"]),
    ],
)
def test_a_bad_value_is_refused_with_option_and_bound(texts: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        static_config(overrides=texts)
    message = str(refused.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message


def test_a_bad_value_is_refused_even_if_a_better_one_hides_it() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections"):
        BrokerConfig.from_texts({"max.connections": "many"}, node_dynamic={"max.connections": "5"})


def test_a_refused_secret_is_not_shown() -> None:
    config = BrokerConfig.from_texts({"ssl.key.password": "hunter2"})
    assert "hunter2" not in str(BROKER_OPTIONS["ssl.key.password"].error("hunter2", "must be longer"))
    assert config.value("ssl.key.password") == "hunter2"


def test_an_unknown_profile_or_number_of_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match="fast for --profile"):
        static_config(profile="fast")
    with pytest.raises(ConfigError, match="0 for --nodes"):
        static_config(nodes=0)


def test_stored_dynamic_values_of_another_version_are_ignored_and_reported() -> None:
    taken, problems = usable({"max.connections": "5", "num.io.threads": "x", "zork": "1"})
    assert taken == {"max.connections": "5", "zork": "1"}
    assert len(problems) == 1
    assert "num.io.threads" in problems[0]


# Warnings


def test_each_option_without_effect_is_reported_once() -> None:
    static = static_config(
        file=file("super.users=User:a\nnum.io.threads=8\nlog.local.retention.ms=5\nnum.partitions=4\n# nodes=2\n"),
        overrides={"num.io.threads": "9", "listener.name.external.ssl.provider": "x"},
    )
    assert sorted(static.warnings) == [
        (
            "listener.name.external.ssl.provider: known to Kafka, but has no effect in Ottla: it names a provider of"
            " the Java virtual machine"
        ),
        "log.local.retention.ms: known to Kafka, but has no effect in Ottla",
        f"num.io.threads: known to Kafka, but has no effect in Ottla: {reason_of('num.io.threads')}",
        "super.users: has no effect without authorizer.class.name at startup, ignored",
    ]


def test_authorizer_options_are_read_only_at_the_start() -> None:
    lines = f"authorizer.class.name={STANDARD}\nsuper.users=User:a; User:b:c ;\nallow.everyone.if.no.acl.found= TRUE\n"
    static = static_config(file=file(lines))
    assert static.warnings == ()
    changed = static.node(0, cluster_dynamic={"super.users": "User:z"})
    assert changed.authorization == Authorization(frozenset({"User:a", "User:b:c"}), allow_if_no_acl=True)
    assert static_config().node(0).authorization is None


@pytest.mark.parametrize(
    ("lines", "said"),
    {
        "another class": (
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            f"authorizer.class.name: Java classes are not supported; must be {STANDARD}, or empty for no authorization",
        ),
        "no principal": (
            f"authorizer.class.name={STANDARD}\nsuper.users=User:a;bob",
            "Invalid value bob for configuration super.users: must be TYPE:NAME, e.g. User:alice",
        ),
        "no boolean": (
            f"authorizer.class.name={STANDARD}\nallow.everyone.if.no.acl.found=yes",
            "Invalid value yes for configuration allow.everyone.if.no.acl.found: must be true or false",
        ),
    }.values(),
)
def test_invalid_authorizer_options_refuse_the_start(lines: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        static_config(file=file(lines))


def test_a_per_node_value_of_a_shared_option_is_reported() -> None:
    static = static_config(
        file=file("# nodes=2\n# node.1.log.dirs=/other\n# node.1.broker.rack=r1\n# node.7.broker.rack=r7\n")
    )
    assert static.warnings == (
        "node.1.log.dirs: all nodes share the value of node 0; ignored",
        "node.7.broker.rack: node 7 not found, ignored",
    )
    assert static.node(1).broker_rack == "r1"
    assert static.node(1).data_dirs == ("/tmp/kafka-logs",)


# Nodes


def test_kafkas_sample_file_for_both_roles_serves_both_listeners() -> None:
    config = static_config(
        file=file(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
            "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        )
    ).node(1)
    assert config.listener_configs == (
        ListenerConfig("PLAINTEXT", "", 9092, "localhost", 9092),
        ListenerConfig("CONTROLLER", "", 9093, "localhost", 9093, controller_id=1),
    )


def test_node_ids_continue_from_the_first() -> None:
    assert static_config(overrides={"node.id": "5"}, nodes=3).node_ids == (5, 6, 7)
    assert static_config(overrides={"broker.id": "5"}).node_ids == (5,)
    assert static_config(file=file("# nodes=3")).node_ids == (0, 1, 2)
    assert static_config(file=file("# nodes=3"), nodes=1).node_ids == (0,)


def test_further_nodes_listen_on_free_ports_unless_configured() -> None:
    static = static_config(
        file=file(
            "listeners=A://h:1,B://[::1]:2\nadvertised.listeners=A://pub:1,B://pub:2\n# node.2.listeners=C://g:5\n"
        ),
        nodes=3,
    )
    assert static.node(1).listener_configs == (
        ListenerConfig("A", "h", 0, "pub", 0),
        ListenerConfig("B", "::1", 0, "pub", 0),
    )
    assert static.node(2).listener_configs == (ListenerConfig("C", "g", 5, "g", 5),)


def test_given_listeners_belong_to_the_first_node() -> None:
    static = static_config(flags={"listeners": "A://h:1"}, nodes=2)
    assert [static.node(node_id).listener_configs[0].port for node_id in (0, 1)] == [1, 0]


def test_each_node_has_its_own_id() -> None:
    static = static_config(nodes=2)
    assert [static.node(node_id).node_id for node_id in static.node_ids] == [0, 1]
    assert static.node(1).texts_of(ConfigSource.STATIC_BROKER)["node.id"] == "1"


def test_a_file_may_give_the_first_node_its_own_values() -> None:
    static = static_config(file=file("num.partitions=2\n# node.0.num.partitions=3\n"), nodes=2)
    assert static.node(0).num_partitions == static.node(1).num_partitions == 3


def test_cluster_id_and_features_come_from_comment_lines() -> None:
    static = static_config(file=file("# cluster.id=abc\n# feature.group.version=1\n"))
    assert (static.cluster_id, dict(static.features)) == ("abc", {"group.version": 1})


def test_controller_options_apply_unless_the_file_sets_others() -> None:
    static = static_config(
        profile="dev",
        file=file(
            "# controllers=0@h:1,3000@h:2\nnum.partitions=5\n# node.3000.num.partitions=6\n"
            "# node.3000.default.replication.factor=2\n# node.3000.log.retention.check.interval.ms=9\n"
            "# node.3000.listeners=CONTROLLER://h:2\n# node.4000.num.partitions=7\n"
        ),
    )
    config = static.node(0)
    assert (config.num_partitions, config.default_replication_factor) == (5, 2)
    assert config.value("log.retention.check.interval.ms") == 9
    assert config.listener_configs[0].port == 9092
    assert [line for line in static.warnings if line.startswith("node.")] == [
        "node.4000.num.partitions: node 4000 not found, ignored"
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    {
        "known to Kafka": (
            "# feature.kraft.version=1",
            "feature.kraft.version: reported to clients, but has no effect in Ottla",
        ),
        "unknown": ("# feature.moon.version=1", "feature.moon.version: unknown feature, ignored"),
    }.values(),
)
def test_a_feature_without_effect_is_reported_in_one_line(line: str, told: str) -> None:
    assert static_config(file=file(line)).warnings == (told,)


def test_options_of_a_secured_cluster_are_accepted_on_plaintext_listeners() -> None:
    static = static_config(
        file=file(
            "# nodes=2\n# node.1.listeners=EXTERNAL://localhost:19124\n# node.1.broker.rack=r1\n# node.1.log.dirs=/b1\n"
            "# standalone=false\n# controller.listener=CONTROLLER\n# metadata.version=4.4-IV0\n"
            "listeners=EXTERNAL://localhost:19123\ninter.broker.listener.name=EXTERNAL\n"
            "listener.security.protocol.map=EXTERNAL:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n"
            'listener.name.controller.plain.sasl.jaas.config=Module required user_a="\\\\\\n";\nsuper.users=User:a\n'
        )
    )
    assert [static.node(node_id).listener_configs[0].port for node_id in static.node_ids] == [19123, 19124]
    assert [static.node(node_id).broker_rack for node_id in static.node_ids] == [None, "r1"]
    name = "listener.name.controller.plain.sasl.jaas.config"
    assert static.node(0).texts_of(ConfigSource.STATIC_BROKER)[name] == 'Module required user_a="\\\n";'


def test_an_unknown_feature_level_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value 3 for .* feature\.transaction\.version: .* from 0 to 2"):
        static_config(file=file("# feature.transaction.version=3"))


def test_connection_limits_by_host_are_numbers() -> None:
    config = BrokerConfig.from_texts({"max.connections.per.ip.overrides": "localhost:5, ::1:7"})
    assert config.max_connections_by_host == {"localhost": 5, "::1": 7}


def test_an_option_of_one_listener_is_created_once() -> None:
    name = "listener.name.internal.ssl.cipher.suites"
    found = find_option(name)
    assert found is not None and found.name == name and found.acts
    assert find_option(name) is found


@pytest.mark.parametrize("name", ["ssl.provider", "num.partitions", "connection.failed.authentication.delay.ms"])
def test_listener_options_without_effect_are_reported(name: str) -> None:
    found = find_option(f"listener.name.internal.{name}")
    assert found is not None and not found.acts


def test_no_repr_shows_a_secret() -> None:
    texts = {"ssl.key.password": "hunter2", "listener.name.a.ssl.keystore.password": "hunter2"}
    assert "hunter2" not in repr(BrokerConfig.from_texts(texts)) + repr(static_config(overrides=texts))


def test_a_long_unknown_option_is_reported_with_the_start_of_its_name() -> None:
    (line,) = warnings_of({"n" * 30_000: "x"})
    assert line == "n" * 249 + ": unknown option, ignored"


def test_a_misspelt_option_is_reported_with_the_nearest_name() -> None:
    overrides = {"log.cleaner.enabel": "true", "confluent.metrics.enable": "true", "flush.messages": "1"}
    assert static_config(overrides=overrides).warnings == (
        "log.cleaner.enabel: unknown option, ignored; did you mean log.cleaner.enable?",
        "confluent.metrics.enable: unknown option, ignored",
        "flush.messages: unknown option, ignored; did you mean log.flush.interval.messages?",
    )


def test_a_value_of_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match=r"BrokerConfig has no num_partition$"):
        BrokerConfig(num_partition=3)
