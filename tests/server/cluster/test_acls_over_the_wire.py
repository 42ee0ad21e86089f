"""DescribeAcls, CreateAcls and DeleteAcls: stored entries and answers, required rights, and the state after a loss of power."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.broker.broker import Broker
from ottla.server.cluster import acl_changes
from ottla.server.config.options.security_options import STANDARD
from ottla.server.security.acls.acl import Acl, parse
from ottla.server.security.acls.filters import AclFilter
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.storage.topics.catalog import Catalog
from support.broker.contexts import Staying
from support.broker.conversation import address
from support.broker.in_process_broker import DATA_DIR, InProcessClient, run_in_order, running
from support.broker.raw_client import RawClient
from support.disk.crash_files import CrashFiles
from support.noted import each_case

AUTHORIZER = {"authorizer_class_name": STANDARD, "super_users": "User:ANONYMOUS"}


class User(Staying):
    """A client that has authenticated."""

    def __init__(self, name: str) -> None:
        self.principal = Principal("User", name)


@asynccontextmanager
async def secured(files: CrashFiles | None = None, **options: str) -> AsyncIterator[tuple[Broker, InProcessClient]]:
    async with running(files or CrashFiles(), **(AUTHORIZER | options)) as both:
        yield both


def entries(*lines: str) -> list[Acl]:
    return [acl for line in lines for acl in parse(line)]


def creation(acl: Acl, **other: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "resource_pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
    return AclCreation(**(values | other))


def creations(*lines: str) -> CreateAclsRequest:
    return CreateAclsRequest(creations=tuple(map(creation, entries(*lines))))


def asked(wanted: AclFilter, of: Any = DescribeAclsRequest) -> Any:
    return of(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def described(answer: Any) -> set[str]:
    return {
        str(
            Acl(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
                row.principal,
                row.host,
                AclOperation(row.operation),
                Permission(row.permission_type),
            )
        )
        for resource in answer.resources
        for row in resource.acls
    }


LINES = (
    "User:alice allow READ topic:orders",
    "User:alice allow READ topic:ord*",
    "User:bob deny WRITE topic:orders from 10.0.0.7",
    "User:* allow DESCRIBE topic:*",
    "User:alice allow READ group:orders",
    "User:alice allow CREATE cluster:kafka-cluster",
)
FILTERS = {
    "everything": (AclFilter(), {0, 1, 2, 3, 4, 5}),
    "topics": (AclFilter(ResourceType.TOPIC), {0, 1, 2, 3}),
    "a name, in any way": (AclFilter(ResourceType.TOPIC, "orders"), {0, 2}),
    "a name of any type": (AclFilter(name="orders"), {0, 2, 4}),
    "a prefix": (AclFilter(ResourceType.TOPIC, "ord", PatternType.PREFIXED), {1}),
    "a prefix, asked for as a name": (AclFilter(ResourceType.TOPIC, "ord", PatternType.LITERAL), set()),
    "all prefixes": (AclFilter(pattern=PatternType.PREFIXED), {1}),
    "what speaks of a name": (AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH), {0, 1, 2, 3}),
    "what speaks of all names": (AclFilter(ResourceType.TOPIC, "*", PatternType.MATCH), {3}),
    "match without a name": (AclFilter(ResourceType.TOPIC, None, PatternType.MATCH), {0, 1, 2, 3}),
    "a principal": (AclFilter(principal="User:alice"), {0, 1, 4, 5}),
    "a host": (AclFilter(host="10.0.0.7"), {2}),
    "an operation": (AclFilter(operation=AclOperation.READ), {0, 1, 4}),
    "denials": (AclFilter(permission=Permission.DENY), {2}),
    "nothing": (AclFilter(name="other"), set()),
}


@pytest.mark.parametrize("level", [31, 32])
def test_a_host_may_be_a_network_from_a_metadata_version_on(level: int) -> None:
    """The codes and messages are Apache Kafka 4.4.0's."""
    good, none = (ErrorCode.NONE, ""), (ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
    wrong = ErrorCode.INVALID_REQUEST, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"
    old = ErrorCode.UNSUPPORTED_VERSION, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    expected = {31: [old, old, old, none, good], 32: [good, good, wrong, none, good]}
    overrides = {name.replace("_", "."): value for name, value in AUTHORIZER.items()}
    with (
        ottla.Broker(features={"metadata.version": level}, overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        (acl,) = entries("User:alice allow READ topic:orders")
        hosts = ("10.0.0.0/8", "fd00::/8", "10.0.0.0/33", "", "10.0.0.1")
        request = CreateAclsRequest(creations=tuple(creation(acl, host=host) for host in hosts))
        assert [(row.error_code, row.error_message) for row in client.ask(request, 3).results] == expected[level]


@each_case("wanted, numbers", FILTERS.values(), ids=FILTERS)
def test_a_filter_describes_and_deletes_the_same_entries(wanted: AclFilter, numbers: set[int]) -> None:
    async def work() -> None:
        async with secured() as (_, client):
            created = await client.ask(creations(*LINES), 3)
            assert [row.error_code for row in created.results] == [0] * len(LINES)
            expected = {LINES[number] for number in numbers}
            answer = await client.ask(asked(wanted), 3)
            assert (answer.error_code, described(answer)) == (ErrorCode.NONE, expected)
            deleted = await client.ask(DeleteAclsRequest(filters=(asked(wanted, DeleteAclsFilter),)), 3)
            assert len(deleted.filter_results[0].matching_acls) == len(numbers)
            left = await client.ask(asked(AclFilter()), 3)
            assert described(left) == set(LINES) - expected

    run_in_order(work)


GOOD = entries("User:alice allow READ topic:t")[0]
REFUSED = {
    "no name": ({"resource_name": ""}, "Invalid empty resource name"),
    "another cluster": (
        {"resource_type": 4, "resource_name": "mine"},
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    "no type": ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
    "no pattern": ({"resource_pattern_type": -1}, "Invalid patternType UNKNOWN"),
    "no operation": ({"operation": 99}, "Invalid operation UNKNOWN"),
    "no permission": ({"permission_type": 5}, "Invalid permissionType UNKNOWN"),
    "no principal": ({"principal": "alice"}, "Could not parse principal from `alice` (no colon is present"),
}


@pytest.mark.parametrize(("other", "said"), REFUSED.values(), ids=REFUSED)
def test_only_an_invalid_entry_is_refused(other: dict[str, Any], said: str) -> None:
    async def work() -> None:
        async with secured() as (_, client):
            rows = (creation(GOOD, **other), creation(GOOD), creation(GOOD))
            answer = await client.ask(CreateAclsRequest(creations=rows), 2)
            bad, *good = answer.results
            assert bad.error_code == ErrorCode.INVALID_REQUEST
            assert (bad.error_message or "").startswith(said)
            assert [(row.error_code, row.error_message) for row in good] == [(0, "")] * 2
            assert described(await client.ask(asked(AclFilter()), 2)) == {str(GOOD)}

    run_in_order(work)


KINDS = ["resource_type", "resource_pattern_type", "operation", "permission_type"]


@pytest.mark.parametrize("field", KINDS)
def test_an_unknown_enum_value_ends_the_connection(field: str) -> None:
    async def work() -> None:
        async with secured() as (_, client):
            with pytest.raises(BaseExceptionGroup) as refusal:
                await client.ask(CreateAclsRequest(creations=(creation(GOOD, **{field: 0}),)), 3)
            assert refusal.group_contains(ProtocolError, match="invalid value UNKNOWN")

    run_in_order(work)


@pytest.mark.parametrize(("field", "code"), [*((field, 1) for field in KINDS), ("resource_pattern_type", 2)])
def test_an_entry_for_any_type_refuses_the_whole_request(field: str, code: int) -> None:
    async def work() -> None:
        async with secured() as (_, client):
            rows = (creation(GOOD), creation(GOOD, **{field: code}))
            answer = await client.ask(CreateAclsRequest(creations=rows), 3)
            assert [(row.error_code, row.error_message) for row in answer.results] == [(-1, None)] * 2
            assert described(await client.ask(asked(AclFilter()), 2)) == set()

    run_in_order(work)


def test_a_filter_with_an_unknown_value_matches_nothing() -> None:
    async def work() -> None:
        async with secured() as (_, client):
            await client.ask(creations(LINES[0]), 3)
            pattern = dataclasses.replace(asked(AclFilter(), DeleteAclsFilter), resource_type_filter=99)
            entry = dataclasses.replace(asked(AclFilter(), DeleteAclsFilter), operation=99)
            gone = await client.ask(
                DeleteAclsRequest(filters=(pattern, entry, asked(AclFilter(), DeleteAclsFilter))), 3
            )
            told = [(row.error_code, row.error_message, len(row.matching_acls)) for row in gone.filter_results]
            assert told == [(42, "Unknown patternFilter.", 0), (42, "Unknown entryFilter.", 0), (0, None, 1)]
            answer = await client.ask(dataclasses.replace(asked(AclFilter()), operation=99), 3)
            assert (answer.error_code, answer.error_message, answer.resources) == (0, "", ())

    run_in_order(work)


def test_without_an_authorizer_security_is_disabled() -> None:
    async def work() -> None:
        async with running(CrashFiles()) as (_, client):
            told = await client.ask(asked(AclFilter()), 3)
            assert (told.error_code, told.error_message) == (54, "No Authorizer is configured on the broker")
            made = await client.ask(creations("User:a allow READ topic:t"), 3)
            gone = await client.ask(DeleteAclsRequest(filters=(asked(AclFilter(), DeleteAclsFilter),)), 3)
            for row in (*made.results, *gone.filter_results):
                assert (row.error_code, row.error_message) == (54, "No Authorizer is configured.")

    run_in_order(work)


def test_describe_on_the_cluster_shows_entries_and_alter_changes_them() -> None:
    async def work() -> None:
        async with secured() as (broker, client):
            alice = InProcessClient(broker, User("alice"))

            async def codes() -> list[int]:
                told = await alice.ask(asked(AclFilter()), 3)
                made = await alice.ask(creations("User:a allow READ topic:t"), 3)
                gone = await alice.ask(DeleteAclsRequest(filters=(asked(AclFilter(name="t"), DeleteAclsFilter),)), 3)
                return [told.error_code, made.results[0].error_code, gone.filter_results[0].error_code]

            assert await codes() == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
            await client.ask(creations("User:alice allow DESCRIBE cluster"), 3)
            assert await codes() == [0, *[ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2]
            await client.ask(creations("User:alice allow ALTER cluster"), 3)
            assert await codes() == [0, 0, 0]

    run_in_order(work)


def test_too_many_entries_are_refused_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with secured() as (_, client):
            monkeypatch.setattr(acl_changes, "CHANGED_MAX", 2)
            codes = [row.error_code for row in (await client.ask(creations(*LINES[:3]), 3)).results]
            assert codes == [ErrorCode.POLICY_VIOLATION] * 3
            await client.ask(creations(*LINES[:2]), 3)
            await client.ask(creations(*LINES[2:4]), 3)
            gone = await client.ask(DeleteAclsRequest(filters=(asked(AclFilter(), DeleteAclsFilter),)), 3)
            assert gone.filter_results[0].error_code == ErrorCode.POLICY_VIOLATION
            everything_of_one = asked(AclFilter(name=entries(LINES[0])[0].name), DeleteAclsFilter)
            monkeypatch.setattr(acl_changes, "MEANT_MAX", 2)
            gone = await client.ask(DeleteAclsRequest(filters=(everything_of_one,) * 3), 3)
            assert [row.error_code for row in gone.filter_results] == [ErrorCode.POLICY_VIOLATION] * 3
            for bound in ("ENTRIES_MAX", "CHARS_MAX"):
                monkeypatch.setattr(acl_changes, bound, 4)
                refused = (await client.ask(creations(LINES[4]), 3)).results[0]
                assert refused.error_code == ErrorCode.POLICY_VIOLATION
                assert "limit 4)" in (refused.error_message or "")
                monkeypatch.undo()
            assert described(await client.ask(asked(AclFilter()), 3)) == set(LINES[:4])

    run_in_order(work)


def test_acknowledged_changes_survive_any_power_loss() -> None:
    async def work() -> None:
        files = CrashFiles()
        async with secured(files) as (_, client):
            for request, expected in (
                (creations(*LINES[:2]), set(LINES[:2])),
                (DeleteAclsRequest(filters=(asked(AclFilter(name="orders"), DeleteAclsFilter),)), {LINES[1]}),
            ):
                await client.ask(request, 3)
                disks = list(files.after_crash(ordered=True))
                assert disks
                assert all(stored(disk) == expected for disk in disks)
        async with secured(files) as (_, client):
            assert described(await client.ask(asked(AclFilter()), 3)) == {LINES[1]}

    run_in_order(work)


def stored(files: CrashFiles) -> set[str]:
    catalog = Catalog.load(files, DATA_DIR)
    assert catalog is not None
    return set(catalog.entries("acls"))


def test_changes_that_the_disk_refuses_have_no_effect() -> None:
    async def work() -> None:
        files = CrashFiles()
        async with secured(files) as (_, client):

            def refuse(operation: str, path: str, _: int) -> None:
                raise OSError(errno.EIO, "Input/output error", path)

            await client.ask(creations(LINES[0]), 3)
            files.refuse = refuse
            made = await client.ask(creations(LINES[1]), 3)
            gone = await client.ask(DeleteAclsRequest(filters=(asked(AclFilter(), DeleteAclsFilter),)), 3)
            files.refuse = None
            for row in (*made.results, *gone.filter_results):
                assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert described(await client.ask(asked(AclFilter()), 3)) == {LINES[0]}

    run_in_order(work)


def test_returned_operations_are_those_the_client_is_allowed() -> None:
    async def work() -> None:
        async with secured() as (broker, client):
            await client.ask(creations("User:alice allow READ topic:t", "User:alice deny ALTER topic:t"), 3)
            await broker.services.topic_admin.create(broker.services.topic_admin.planner.plan("t"))
            alice = InProcessClient(broker, User("alice"))
            request = MetadataRequest(
                topics=(MetadataRequestTopic(name="t"),),
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )
            answer = await alice.ask(request, 8)
            assert answer.topics[0].topic_authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
            assert answer.cluster_authorized_operations == 0
            await client.ask(creations("User:alice allow ALTER cluster"), 3)
            answer = await alice.ask(request, 8)
            assert answer.cluster_authorized_operations == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE

    run_in_order(work)
