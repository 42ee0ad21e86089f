"""Configs of a share group, and its start offset in partitions that are new to it."""

from __future__ import annotations

from ottla.server.config.broker_config import BrokerConfig
from ottla.server.config.group_configs import check_group_configs
from ottla.server.config.options.group_options import ShareReset, read_reset
from ottla.server.sharing.loading import share_group_config
from support.noted import each_case

DAY_MS = 86_400_000


@each_case(
    "text, reset",
    [
        ("earliest", ShareReset("earliest")),
        ("latest", ShareReset("latest")),
        ("by_duration:PT1S", ShareReset("by_duration", 1_000)),
        ("by_duration:P2DT3H4M5.678S", ShareReset("by_duration", 2 * DAY_MS + 11_045_678)),
        ("by_duration:pt0,0015s", ShareReset("by_duration", 1)),
        ("by_duration:-PT-1S", ShareReset("by_duration", 1_000)),
        ("by_duration:P1DT-1H", ShareReset("by_duration", DAY_MS - 3_600_000)),
        ("by_duration:P1D", ShareReset("by_duration", DAY_MS)),
        ("by_duration:PT0S", ShareReset("by_duration", 0)),
        ("by_duration:PT9223372036854775807S", ShareReset("by_duration", (2**63 - 1) * 1_000)),
        ("by_duration:PT9223372036854775808S", None),
        (f"by_duration:PT{'9' * 5_000}S", None),
        ("by_duration:-PT1S", None),
        ("by_duration:PT-0.5S", None),
        ("by_duration:P1W", None),
        ("by_duration:PT", None),
        ("by_duration:P1DT", None),
        ("by_duration:P", None),
        ("by_duration:1000", None),
        ("by_duration:", None),
        ("by_duration", None),
        ("none", None),
        ("Earliest", None),
        ("earliest:PT1S", None),
        ("", None),
    ],
)
def test_a_groups_start_follows_its_config(text: str, reset: ShareReset | None) -> None:
    assert read_reset(text) == reset


def test_unset_group_options_have_the_brokers_values() -> None:
    config = BrokerConfig.from_texts({"group.share.delivery.count.limit": "7"})
    texts = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
        "share.record.lock.duration.ms": "20000",
        "errors.deadletterqueue.topic.name": "dlq.t",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    groups = {"g": check_group_configs(config, texts)}
    assert share_group_config(config, groups, "g") == (
        7, 2_000, 20_000, 45_000, ShareReset("earliest"), True, False, "dlq.t", True,
    )  # fmt: skip
    assert share_group_config(config, groups, "h") == (
        7, 2_000, 30_000, 45_000, ShareReset("latest"), False, True, "", False,
    )  # fmt: skip
