"""Errors of commands for a user without rights, or without a login: one line that says which it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server.config.options.security_options import STANDARD
from support.commands.command_runs import Ran, run_command

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    options = {"authorizer.class.name": STANDARD, "super.users": "User:root"}
    with ottla.Broker(users={"root": "pw", "nobody": "pw"}, overrides=options) as running:
        running.create_topic("t")
        yield running


def run(broker: ottla.Broker, directory: Path, *command: str, user: str = "nobody", password: str = "pw") -> Ran:
    path = directory / "client.properties"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="{user}" password="{password}";',
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return run_command(*command, "--bootstrap", broker.bootstrap, "--command-config", str(path))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("topics describe t", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
        ("topics describe other", "TOPIC_AUTHORIZATION_FAILED: topic 'other'"),
        ("topics create n", "TOPIC_AUTHORIZATION_FAILED: Authorization failed."),
        ("topics delete t", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
        ("topics status t", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
        ("configs describe topic:t", "TOPIC_AUTHORIZATION_FAILED: Topic authorization failed."),
        ("configs alter broker:0 num.io.threads=1", "CLUSTER_AUTHORIZATION_FAILED: broker '0'"),
        ("groups describe g", "GROUP_AUTHORIZATION_FAILED: group 'g'"),
        ("groups delete g", "GROUP_AUTHORIZATION_FAILED: group 'g'"),
        ("groups reset g --to beginning", "GROUP_AUTHORIZATION_FAILED: group 'g'"),
        ("produce t v", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
        ("consume t", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
        ("empty t", "TOPIC_AUTHORIZATION_FAILED: topic 't'"),
    ],
)
def test_a_missing_right_is_named(broker: ottla.Broker, tmp_path: Path, command: str, told: str) -> None:
    assert run(broker, tmp_path, *command.split()) == Ran(1, "", f"ottla: {told}\n")


def test_a_topic_is_not_emptied_without_each_right(broker: ottla.Broker, tmp_path: Path) -> None:
    broker.create_topic("compacted", configs={"cleanup.policy": "compact"})
    broker.add_acls("User:nobody allow DESCRIBE topic:compacted")
    done = run(broker, tmp_path, "empty", "compacted")
    assert done.code == 1 and "DELETE on the topic is needed; --tombstones needs READ and WRITE" in done.err
    broker.add_acls("User:nobody allow DELETE topic:compacted")
    done = run(broker, tmp_path, "empty", "compacted")
    assert done.code == 1 and "DESCRIBE_CONFIGS and ALTER_CONFIGS on the topic are needed" in done.err
    broker.add_acls("User:nobody allow DESCRIBE_CONFIGS topic:compacted")
    done = run(broker, tmp_path, "empty", "compacted")
    assert done.code == 1 and done.err.splitlines()[-1].endswith("--tombstones needs READ and WRITE instead")
    broker.add_acls("User:nobody allow ALTER_CONFIGS topic:compacted")
    assert run(broker, tmp_path, "empty", "compacted").code == 0


def test_a_missing_group_is_reported_to_a_user_with_the_right(broker: ottla.Broker, tmp_path: Path) -> None:
    done = run(broker, tmp_path, "groups", "describe", "g", user="root")
    assert (done.code, done.err) == (1, "ottla: group 'g' not found\n")


def test_a_wrong_password_is_not_an_unreachable_broker(broker: ottla.Broker, tmp_path: Path) -> None:
    done = run(broker, tmp_path, "topics", "list", password="other")
    said = f"ottla: cannot log in at {broker.bootstrap}: Authentication failed: Invalid username or password\n"
    assert (done.code, done.err) == (2, said)
    done = run_command("topics", "list", "--bootstrap", broker.bootstrap)
    assert done.code == 2 and "if its listener requires SASL or TLS, use --command-config" in done.err
