"""Configs of one group: they affect its members only."""

from __future__ import annotations

from ottla.server.config.broker_config import BrokerConfig
from ottla.server.config.group_configs import GroupConfig
from ottla.server.groups.settings import GroupSettings
from support.groups.consumer_groups import SESSION_MS, ConsumerGroups


def groups_with(**configs: GroupConfig) -> ConsumerGroups:
    return ConsumerGroups(orders=2, settings={"groups": configs})


def test_members_receive_their_groups_heartbeat_interval() -> None:
    groups = groups_with(g=GroupConfig({}, {"consumer.heartbeat.interval.ms": 7_000}))
    assert groups.enter("a").heartbeat_interval_ms == 7_000


def test_a_silent_member_is_removed_after_its_groups_session_timeout() -> None:
    groups = groups_with(g=GroupConfig({}, {"consumer.session.timeout.ms": 2 * SESSION_MS}))
    groups.enter("a")
    groups.advance(SESSION_MS + 1)
    assert set(groups.table().members) == {"a"}
    groups.advance(SESSION_MS)
    assert set(groups.table().members) == set()


def test_other_groups_have_the_brokers_values() -> None:
    settings = GroupSettings.from_config(BrokerConfig.from_texts({}))
    names = ("consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")
    settings.groups = {"g": GroupConfig({}, {name: value for value, name in enumerate(names, 1)})}
    assert [settings.of_group("g")[name] for name in names] == [1, 2, 3]
    assert [settings.of_group("h")[name] for name in names] == [1_000, 5_000, SESSION_MS]
    assert settings.of_group("g")["share.session.timeout.ms"] == settings.of_group("h")["share.session.timeout.ms"]
