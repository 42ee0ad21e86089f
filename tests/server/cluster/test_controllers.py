"""Listeners at which a controller answers: its APIs, its nodes, and its quorum."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.describe_quorum import Listener as VoterListener
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_controller import UnregisterControllerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.schema import ZERO_UUID
from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.properties import parse_server_properties
from ottla.server.config.resources import ConfigResourceType
from ottla.server.config.static_config import static_config
from ottla.storage.disk.checkpoints import uuid_text
from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import address
from support.broker.raw_client import RawClient

ALONE = "# nodes=2\n# controllers=3000@127.0.0.1:0\n# controller.listener=QUORUM\nlisteners=PLAINTEXT://127.0.0.1:0\n"
TOGETHER = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
# nodes=2
"""
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
QUORUM = DescribeQuorumRequest(
    topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),)
)
UPGRADE = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature="kraft.version", max_version_level=1),))
BROKERS, CONTROLLERS = 1, 2
BROKER = ConfigResourceType.BROKER
OF_KAFKA = {
    *(
        17,
        18,
        19,
        20,
        29,
        30,
        31,
        32,
        33,
        36,
        37,
        38,
        39,
        40,
        41,
        43,
        44,
        45,
        46,
        49,
        50,
        51,
        55,
        57,
        60,
        64,
        80,
        81,
        94,
    )
}
"""ApiVersions of Apache Kafka 4.4.0's controllers, without the APIs between brokers and controllers."""


@asynccontextmanager
async def running(data_dir: Path, lines: str) -> AsyncIterator[Broker]:
    static = static_config(file=parse_server_properties(lines), flags={"log.dirs": str(data_dir)})
    async with run_supervisor(static, files=OsFiles()) as supervisor:
        broker = supervisor.broker
        yield broker


async def ask(broker: Broker, request: Any, *, of_controller: bool = True, version: int | None = None) -> Any:
    """Return the answer of the first node, or of the controller at one of its listeners."""
    listener = next(each for each in broker.nodes[0].listeners if (each.controller_id is not None) == of_controller)

    def asked() -> Any:
        with RawClient(listener.host, listener.port) as client:
            return client.ask(request, version)

    return await trio.to_thread.run_sync(asked)


async def test_a_controller_serves_controller_apis_in_the_brokers_versions(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        told = {row.api_key: (row.min_version, row.max_version) for row in (await ask(broker, HELLO)).api_keys}
        assert told.keys() == OF_KAFKA & APIS.keys()
        assert told == {key: APIS[key].advertised for key in told}
        with pytest.raises(ConnectionError):
            await ask(broker, MetadataRequest(topics=()))
        await ask(broker, MetadataRequest(topics=()), of_controller=False)
        with pytest.raises(ConnectionError):  # also when the broker has loaded it
            await ask(broker, MetadataRequest(topics=()))


@pytest.mark.parametrize(("lines", "ids"), [(ALONE, [3000]), (TOGETHER, [0, 1])], ids=["alone", "with brokers"])
async def test_controllers_return_controllers_and_brokers_return_brokers(
    tmp_path: Path, lines: str, ids: list[int]
) -> None:
    async with running(tmp_path, lines) as broker:
        answer = await ask(broker, DescribeClusterRequest(endpoint_type=CONTROLLERS))
        assert [each.broker_id for each in answer.brokers] == ids
        assert (answer.endpoint_type, answer.controller_id) == (CONTROLLERS, ids[0])
        ports = {each.controller_id: each.port for node in broker.nodes for each in node.listeners}
        assert [each.port for each in answer.brokers] == [ports[each] for each in ids]
        brokers = await ask(broker, DescribeClusterRequest(endpoint_type=BROKERS), of_controller=False)
        assert [each.broker_id for each in brokers.brokers] == [0, 1]
        for kind, of_controller in ((BROKERS, True), (CONTROLLERS, False)):
            refused = await ask(broker, DescribeClusterRequest(endpoint_type=kind), of_controller=of_controller)
            assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        unknown = await ask(broker, DescribeClusterRequest(endpoint_type=3))
        assert (unknown.error_code, unknown.error_message) == (
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "Unsupported endpoint type 3",
        )


@pytest.mark.parametrize(
    ("lines", "voters", "observers", "names"),
    [
        (ALONE, [3000], [0, 1], {3000: ["QUORUM"]}),
        (TOGETHER, [0, 1], [], {0: ["CONTROLLER"], 1: ["CONTROLLER"]}),
        ("# nodes=2\nlisteners=PLAINTEXT://127.0.0.1:0\n", [0], [1], {}),
    ],
    ids=["alone", "with brokers", "none"],
)
async def test_the_quorum_is_that_of_an_apache_kafka_cluster(
    tmp_path: Path, lines: str, voters: list[int], observers: list[int], names: dict[int, list[str]]
) -> None:
    async with running(tmp_path, lines) as broker:
        answer = await ask(broker, QUORUM, of_controller=False)
        (partition,) = answer.topics[0].partitions
        assert [each.replica_id for each in partition.current_voters] == voters
        assert [each.replica_id for each in partition.observers] == observers
        assert (partition.leader_id, partition.error_code, partition.error_message) == (voters[0], 0, "")
        assert {node.node_id: [each.name for each in node.listeners] for node in answer.nodes} == names
        assert {each.log_end_offset for each in partition.current_voters} == {partition.high_watermark}
        for version in (0, 1):
            assert (await ask(broker, QUORUM, of_controller=False, version=version)).nodes == ()


async def test_voters_have_a_directory_from_kraft_version_1_on(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        (partition,) = (await ask(broker, QUORUM, of_controller=False)).topics[0].partitions
        directory = partition.observers[0].replica_directory_id
        assert directory == broker.services.cluster.directory_id() != ZERO_UUID
        assert partition.current_voters[0].replica_directory_id == ZERO_UUID
        await ask(broker, UPGRADE)
        (partition,) = (await ask(broker, QUORUM, of_controller=False)).topics[0].partitions
        assert partition.current_voters[0].replica_directory_id == directory


async def test_a_separate_controller_answers_while_nodes_are_stopped(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        for node_id in (0, 1):
            await broker.stop_node(node_id)
            answer = await ask(broker, DescribeClusterRequest(endpoint_type=CONTROLLERS))
            assert [each.broker_id for each in answer.brokers] == [3000]
        with pytest.raises(ConnectionError):
            await ask(broker, HELLO, of_controller=False)
        await broker.start_node(0)
        assert (await ask(broker, HELLO, of_controller=False)).error_code == 0
        assert (await ask(broker, HELLO)).error_code == 0


async def test_a_controller_continues_after_a_failed_start_of_its_node(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        await broker.stop_node(0)
        own, *_ = broker.nodes[0].own_listeners
        with socket.create_server((own.host, own.port)):
            with pytest.raises(OSError, match="cannot listen on PLAINTEXT"):
                await broker.start_node(0)
            assert (await ask(broker, HELLO)).error_code == 0
        await broker.start_node(0)
        assert (await ask(broker, HELLO, of_controller=False)).error_code == 0
        assert (await ask(broker, HELLO)).error_code == 0


async def test_a_broker_that_cannot_start_again_refuses_clients_everywhere(tmp_path: Path) -> None:
    """The refusal also holds if a node was stopped before, and a controller next to it was not."""
    static = static_config(file=parse_server_properties(ALONE), flags={"log.dirs": str(tmp_path)})
    async with run_supervisor(static) as supervisor:
        await supervisor.broker.stop_node(0)
        own, *_ = supervisor.nodes[0].own_listeners
        with socket.create_server((own.host, own.port)):
            with pytest.raises(OSError, match="cannot listen on PLAINTEXT"):
                await supervisor.restart()
            for node in supervisor.nodes:
                for listener in node.listeners:
                    if listener is not own:
                        with pytest.raises(ConnectionRefusedError):
                            socket.create_connection((listener.host, listener.port)).close()
        await supervisor.restart()
        for of_controller in (True, False):
            assert (await ask(supervisor.broker, HELLO, of_controller=of_controller)).error_code == 0


@pytest.mark.parametrize("names", [["foo"], ["__cluster_metadata", "foo"]])
async def test_only_the_metadata_log_has_a_quorum(tmp_path: Path, names: list[str]) -> None:
    partitions = (PartitionData(partition_index=0), PartitionData(partition_index=1))
    async with running(tmp_path, ALONE) as broker:
        wanted = DescribeQuorumRequest(
            topics=tuple(TopicData(topic_name=name, partitions=partitions) for name in names)
        )
        answer = await ask(broker, wanted)
        assert answer.error_code == 0
        assert {
            (topic.topic_name, each.partition_index, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        } == {(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names for index in (0, 1)}


async def test_controller_configs_have_their_own_id_and_broker_configs_change_through_brokers(
    tmp_path: Path,
) -> None:
    def describe(name: str) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=4, resource_name=name, configuration_keys=("log.cleaner.backoff.ms",)
                ),
            )
        )

    def change(name: str) -> IncrementalAlterConfigsRequest:
        config = AlterableConfig(name="log.cleaner.backoff.ms", value="7", config_operation=0)
        resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=(config,))
        return IncrementalAlterConfigsRequest(resources=(resource,))

    async with running(tmp_path, ALONE) as broker:
        assert (await ask(broker, describe("3000"))).results[0].configs[0].value == "15000"
        assert (await ask(broker, describe("0"))).results[0].error_code == ErrorCode.INVALID_REQUEST
        assert (await ask(broker, change("0"))).responses[0].error_code == 0
        answer = await ask(broker, describe("0"), of_controller=False)
        assert answer.results[0].configs[0].value == "7"
        assert (await ask(broker, change("77"))).responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_stopped_node_may_be_unregistered_until_it_starts(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        everybody = DescribeClusterRequest(include_fenced_brokers=True)
        known = partial(ask, broker, everybody, of_controller=False)
        assert (
            await ask(broker, UnregisterBrokerRequest(broker_id=7))
        ).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert (await ask(broker, UnregisterBrokerRequest(broker_id=1))).error_code == ErrorCode.INVALID_REQUEST
        await broker.stop_node(1)
        assert [(each.broker_id, each.is_fenced) for each in (await known()).brokers] == [(0, False), (1, True)]
        assert (await ask(broker, UnregisterBrokerRequest(broker_id=1))).error_code == 0
        assert [each.broker_id for each in (await known()).brokers] == [0]
        again = await ask(broker, UnregisterBrokerRequest(broker_id=1))
        assert (again.error_code, again.error_message) == (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Broker ID 1 is not currently registered",
        )
        await broker.start_node(1)
        assert [each.broker_id for each in (await known()).brokers] == [0, 1]


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (TOGETHER, {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE, 7: ErrorCode.CONTROLLER_ID_NOT_REGISTERED}),
        (ALONE, {3000: ErrorCode.INVALID_REQUEST, 0: ErrorCode.CONTROLLER_ID_NOT_REGISTERED}),
        (
            "# feature.metadata.version=32\n" + TOGETHER,
            {0: ErrorCode.INVALID_REQUEST, 7: ErrorCode.UNSUPPORTED_VERSION},
        ),
    ],
    ids=["with brokers", "alone", "older metadata"],
)
async def test_a_controller_that_leads_cannot_be_unregistered(
    tmp_path: Path, lines: str, answers: dict[int, ErrorCode]
) -> None:
    told = {
        ErrorCode.NONE: "",
        ErrorCode.INVALID_REQUEST: "Controller cannot unregister itself while it is active.",
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "Controller ID {} is not currently registered.",
        ErrorCode.UNSUPPORTED_VERSION: ("The current MetadataVersion is too old to support controller unregistration."),
    }
    async with running(tmp_path, lines) as broker:
        for controller_id, code in answers.items():
            for of_controller in (True, False):
                request = UnregisterControllerRequest(controller_id=controller_id)
                answer = await ask(broker, request, of_controller=of_controller)
                assert (answer.error_code, answer.error_message) == (code, told[code].format(controller_id))


def test_an_unregistered_node_is_known_again_in_the_next_run() -> None:
    everybody = DescribeClusterRequest(include_fenced_brokers=True)
    with ottla.Broker(nodes=2) as broker:
        broker.stop_node(1)
        with RawClient(*address(broker)) as client:
            assert client.ask(UnregisterBrokerRequest(broker_id=1)).error_code == 0
        broker.restart()
        with RawClient(*address(broker)) as client:
            assert [each.broker_id for each in client.ask(everybody, 2).brokers] == [0, 1]


VOTER = AddRaftVoterRequest(
    cluster_id=None,
    voter_id=5,
    voter_directory_id=b"d" * 16,
    listeners=(VoterListener(name="QUORUM", host="h", port=9),),
)
STATIC = ErrorCode.UNSUPPORTED_VERSION, "because the kraft.version feature is 0"
VOTERS = {
    "a voter": (VOTER, *STATIC),
    "of another cluster": (
        AddRaftVoterRequest(cluster_id="wrong"),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        'The given id "wrong" doesn\'t match the cluster id "',
    ),
    "without a directory": (
        AddRaftVoterRequest(cluster_id=None, voter_id=5),
        ErrorCode.INVALID_REQUEST,
        "Add voter request didn't include a valid voter",
    ),
    "without the listener": (
        AddRaftVoterRequest(cluster_id=None, voter_id=5, voter_directory_id=b"d" * 16),
        ErrorCode.INVALID_REQUEST,
        "didn't include the endpoint (Endpoints(endpoints={})) for the default listener ListenerName(QUORUM)",
    ),
    "that goes": (
        RemoveRaftVoterRequest(cluster_id=None, voter_id=5, voter_directory_id=b"d" * 16),
        *STATIC,
    ),
    "that goes from another cluster": (
        RemoveRaftVoterRequest(cluster_id="wrong"),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        "doesn't match",
    ),
}


@pytest.mark.parametrize(("request_", "code", "told"), VOTERS.values(), ids=VOTERS)
async def test_voters_do_not_change(tmp_path: Path, request_: Any, code: ErrorCode, told: str) -> None:
    async with running(tmp_path, ALONE) as broker:
        for of_controller in (True, False):
            answer = await ask(broker, request_, of_controller=of_controller)
            assert answer.error_code == code
            assert told in answer.error_message


async def test_voters_do_not_change_from_kraft_version_1_on(tmp_path: Path) -> None:
    async with running(tmp_path, ALONE) as broker:
        await ask(broker, UPGRADE)
        directory = broker.services.cluster.directory_id()
        of = f"ReplicaKey(id=3000, directoryId={uuid_text(directory)})"
        known = replace(VOTER, voter_id=3000, voter_directory_id=directory)
        stranger = RemoveRaftVoterRequest(cluster_id=None, voter_id=5, voter_directory_id=directory)
        for request, code, told in (
            (known, ErrorCode.DUPLICATE_VOTER, f"The voter id for {of} is already part of the set of voters [{of}]."),
            (VOTER, ErrorCode.INVALID_REQUEST, "Ottla's controllers are internal; voters cannot be added"),
            (
                replace(stranger, voter_id=3000),
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {of} from the set of voters [{of}]",
            ),
            (
                stranger,
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {of.replace('3000', '5')} from the set of voters [{of}]",
            ),
        ):
            answer = await ask(broker, request)
            assert (answer.error_code, answer.error_message) == (code, told)


async def test_a_controllers_options_are_stored_and_shown_by_it(tmp_path: Path) -> None:
    rate = "leader.replication.throttled.rate"

    def change(controller: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
        configs = (AlterableConfig(name=name, value=value),)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=controller, configs=configs)
        return IncrementalAlterConfigsRequest(resources=(resource,))

    of_controller = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(
                resource_type=BROKER, resource_name="3000", configuration_keys=(rate, "node.id", "listeners")
            ),
        )
    )
    for _ in range(2):  # a later start has them as well
        async with running(tmp_path, ALONE) as broker:
            for node, name, code in (
                ("3000", rate, ErrorCode.NONE),
                ("7", rate, ErrorCode.INVALID_REQUEST),
                ("3000", "node.id", ErrorCode.INVALID_REQUEST),
            ):
                (answer,) = (await ask(broker, change(node, name, "5"))).responses
                assert answer.error_code == code, (node, name)
            (answer,) = (await ask(broker, change("3000", rate, "5"), of_controller=False)).responses
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            (shown,) = (await ask(broker, of_controller)).results
            assert {row.name: (row.value, row.config_source) for row in shown.configs} == {
                rate: ("5", 2),
                "node.id": ("3000", 4),
                "listeners": ("PLAINTEXT://127.0.0.1:0", 4),
            }
            assert broker.config.node_config(0).leader_replication_throttled_rate != 5
