"""Files of client options, parsed as Java does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.wire.cluster import WireCluster, client_options, read_command_config


def test_the_jobs_own_options_are_skipped_and_the_rest_reach_both_clients(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\ngroup.id=mine\nbootstrap.servers=other:1\nmax.poll.records=7\n")
    cluster = WireCluster("here:9092", read_command_config(str(path)))
    assert cluster.client_config() == {
        "security.protocol": "SSL",
        "max.poll.records": "7",
        "bootstrap.servers": "here:9092",
    }
    assert cluster.connector_options() == {f"kafka.{name}": value for name, value in cluster.client_config().items()}
    assert WireCluster("here:9092").connector_options()["kafka.max.poll.records"] == "10000"


def test_a_binary_file_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "key.p12"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"key\.p12: expected a properties file in UTF-8"):
        read_command_config(str(path))


def test_client_options_come_from_files_and_the_last_wins(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# secret\nsasl.mechanism = PLAIN\nsasl.jaas.config=x \\\n  y;\n", encoding="utf-8-sig")
    path.chmod(0o600)
    said: list[str] = []

    def options(*texts: str) -> dict[str, str]:
        return client_options(texts, "--kafka-config", said.append)

    of_file = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x y;"}
    assert options() == {}
    assert options(f"@{path}") == of_file
    assert options("sasl.mechanism=A", f"@{path}", "a=b=c") == {**of_file, "a": "b=c"}
    assert options(f"@{path}", "sasl.mechanism=B", "a=") == {**of_file, "sasl.mechanism": "B", "a": ""}
    assert said == []
    path.chmod(0o644)
    assert options(f"@{path}") == of_file
    assert said == [
        f"--kafka-config @{path}: all users of this machine can read the secrets in this file; chmod o-r {path}"
    ]
    path.write_text("sasl.jaas.config=s3cr3t\\u12\n")
    with pytest.raises(UsageError, match="malformed") as refused:
        options(f"@{path}")
    assert "s3cr3t" not in str(refused.value)
    path.write_bytes(b"a=\xff")
    with pytest.raises(UsageError, match=r"client\.properties: expected a properties file in UTF-8"):
        options(f"@{path}")


@pytest.mark.parametrize(
    ("config", "whole_ms", "one_ms"),
    [
        ({}, "20", "20"),
        ({"default.api.timeout.ms": "5"}, "5", "5"),
        ({"default.api.timeout.ms": "50", "request.timeout.ms": "6"}, "50", "6"),
    ],
)
def test_a_request_has_the_total_time_limit(config: dict[str, str], whole_ms: str, one_ms: str) -> None:
    found = WireCluster("h:1", config).asked_config(20)
    assert (found["default.api.timeout.ms"], found["request.timeout.ms"]) == (whole_ms, one_ms)
