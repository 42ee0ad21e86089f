"""ApiVersions 5 (KIP-1242): a client says which cluster and node it means to reach. The table is Apache Kafka 4.4.0's."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.security.logging_in import connected, log_in, secured

OWN = "the broker's own"
NONE, INVALID, ANOTHER = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.REBOOTSTRAP_REQUIRED
# (cluster, node) -> answer of node 1, and of a controller
ANSWERS: dict[tuple[str | None, int], tuple[ErrorCode, ErrorCode]] = {
    (None, -1): (NONE, NONE),
    (OWN, 1): (NONE, NONE),
    (OWN, -1): (INVALID, INVALID),
    (None, 1): (INVALID, INVALID),
    (None, 7): (INVALID, INVALID),
    ("x", -1): (INVALID, INVALID),
    ("", 1): (ANOTHER, NONE),
    ("x", 1): (ANOTHER, NONE),
    (OWN, 0): (ANOTHER, NONE),
    (OWN, -2): (ANOTHER, NONE),
}


def hello(client: RawClient, cluster: str | None, node: int, version: int = 5) -> ErrorCode:
    request = ApiVersionsRequest(
        client_software_name="test", client_software_version="1", cluster_id=cluster, node_id=node
    )
    answer = client.ask(request, version)
    assert bool(answer.api_keys) == bool(answer.finalized_features) == (not answer.error_code)
    return ErrorCode(answer.error_code)


def cluster_of(client: RawClient) -> str:
    return str(client.ask(MetadataRequest(topics=())).cluster_id)


@pytest.mark.parametrize("emulate", [None, "4.4"])
def test_a_client_of_another_cluster_or_node_must_rebootstrap(tmp_path: Path, emulate: str | None) -> None:
    overrides = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    }
    with ottla.Broker(tmp_path, nodes=2, overrides=overrides, emulate=emulate) as broker:
        controller = next(each for each in broker.inner.nodes[1].listeners if each.controller_id is not None)
        with RawClient(*address(broker, 1)) as client, RawClient(controller.host, controller.port) as other:
            own = cluster_of(client)
            for (cluster, node), expected in ANSWERS.items():
                meant = own if cluster == OWN else cluster
                assert (hello(client, meant, node), hello(other, meant, node)) == expected, (cluster, node)
            assert hello(client, "x", 7, version=4) == NONE


def test_a_reset_makes_another_cluster_and_a_restart_does_not() -> None:
    with ottla.Broker() as broker:
        with RawClient(*address(broker)) as client:
            old = cluster_of(client)
        broker.restart()
        with RawClient(*address(broker)) as client:
            assert hello(client, old, 0) == NONE
        broker.reset()
        with RawClient(*address(broker)) as client:
            assert hello(client, old, 0) == ANOTHER
            assert hello(client, cluster_of(client), 0) == NONE


def test_a_restore_brings_the_cluster_of_the_copy_back(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path / "data") as broker:
        with RawClient(*address(broker)) as client:
            old = cluster_of(client)
        broker.snapshot(tmp_path / "copy")
        broker.reset()
        broker.restore(tmp_path / "copy")
        with RawClient(*address(broker)) as client:
            assert hello(client, old, 0) == NONE
            assert hello(client, "x", 0) == ANOTHER


def test_before_a_login_neither_is_compared() -> None:
    with secured() as broker, connected(broker) as client:
        assert hello(client, "x", -1) == INVALID
        assert hello(client, "x", 7) == NONE
        assert log_in(client).error_code == NONE
        assert hello(client, "x", 7) == ANOTHER
