"""Files of client options, as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.wire.cluster import Cluster, properties, read_command_config


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb: 2\nc 3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("# a\n  ! b\n\n  c = d e \n", [("c", "d e ")]),
        ("jaas=x required \\\n    username=\"u\" \\\n  password='p=1';\n", [("jaas", "x required username=\"u\" password='p=1';")]),
        (r"a\=b\:c=d\\e", [("a=b:c", "d\\e")]),
        (r"k=\u00fc\t|", [("k", "\u00fc\t|")]),
        ("a\nb=\n", [("a", ""), ("b", "")]),
        ("a=1\\", [("a", "1")]),
        ("# ends with a backslash \\\na=1", [("a", "1")]),
    ],
)  # fmt: skip
def test_a_file_is_read_as_java_reads_it(text: str, found: list[tuple[str, str]]) -> None:
    assert list(properties(text)) == found


def test_what_the_job_says_itself_is_passed_over_and_the_rest_goes_to_both_clients(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\ngroup.id=mine\nbootstrap.servers=other:1\nmax.poll.records=7\n")
    cluster = Cluster("here:9092", read_command_config(str(path)))
    assert cluster.client_config() == {
        "security.protocol": "SSL",
        "max.poll.records": "7",
        "bootstrap.servers": "here:9092",
    }
    assert cluster.connector_options() == {f"kafka.{name}": value for name, value in cluster.client_config().items()}
    assert Cluster("here:9092").connector_options()["kafka.max.poll.records"] == "10000"


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "key.p12"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"key\.p12: expected a file of properties in UTF-8"):
        read_command_config(str(path))


@pytest.mark.parametrize(
    ("config", "whole_ms", "one_ms"),
    [
        ({}, "20", "20"),
        ({"default.api.timeout.ms": "5"}, "5", "5"),
        ({"default.api.timeout.ms": "50", "request.timeout.ms": "6"}, "50", "6"),
    ],
)
def test_a_request_takes_no_longer_than_all_may(config: dict[str, str], whole_ms: str, one_ms: str) -> None:
    found = Cluster("h:1", config).asked_config(20)
    assert (found["default.api.timeout.ms"], found["request.timeout.ms"]) == (whole_ms, one_ms)
