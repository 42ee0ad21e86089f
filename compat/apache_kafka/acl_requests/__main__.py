"""Requests about ACLs and delegation tokens, good and bad ones, to Ottla and to Apache Kafka: equal answers.

Both have the same users, who log in by SASL PLAIN. Both treat every client of the plain listener as a super user.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.server.client.connection import Client

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..authorization.__main__ import NAMES, broker
from ..authorization.asking import LoggedIn

OWNER, RENEWER, OTHER = NAMES[:3]
HOUR_MS = 3_600_000
MIN, MAX = -(2**63), 2**63 - 1
HOLDS_S = 2.0
"""The time until Apache Kafka's broker has the controller's update."""

CREATIONS: dict[str, list[dict[str, Any]]] = {
    "one": [{}],
    "one again, twice": [{}, {}],
    "none": [],
    "no name": [{"resource_name": ""}],
    "another cluster": [{"resource_type": 4, "resource_name": "x"}],
    "clusters by a prefix": [{"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4}],
    "any type": [{"resource_type": 1}],
    "any pattern": [{"resource_pattern_type": 1}],
    "a pattern that matches": [{"resource_pattern_type": 2}],
    "any operation": [{"operation": 1}],
    "any permission": [{"permission_type": 1}],
    "a type of unknown": [{"resource_type": 0}],
    "a pattern of unknown": [{"resource_pattern_type": 0}],
    "an operation of unknown": [{"operation": 0}],
    "no type": [{"resource_type": 99}],
    "no pattern": [{"resource_pattern_type": 99}],
    "no operation": [{"operation": 99}],
    "a negative operation": [{"operation": -1}],
    "no permission": [{"permission_type": 99}],
    "no colon": [{"principal": "alice"}],
    "no principal": [{"principal": ""}],
    "no type of principal": [{"principal": ":x"}],
    "a group": [{"principal": "Group:x"}],
    "no user": [{"principal": "User:"}],
    "no host": [{"host": ""}],
    "an odd host": [{"host": "not a host"}],
    "good and any": [{"resource_name": "m"}, {"resource_type": 1}, {"resource_name": ""}],
    "good and bad": [{"resource_name": "n"}, {"resource_name": ""}, {"principal": "x"}],
    "an operation that a group has not": [{"resource_type": 3, "operation": 5}],
    "a user": [{"resource_type": 7, "resource_name": "User:x", "operation": 13}],
    "an odd user": [{"resource_type": 7, "resource_name": "x", "operation": 13}],
    "a prefix": [{"resource_name": "pre", "resource_pattern_type": 4}],
    "everything, denied": [{"resource_name": "*", "permission_type": 2}],
    "a long name": [{"resource_name": "x" * 30_000}],
    "a token": [{"resource_type": 6, "operation": 8}],
}

FILTERS: dict[str, dict[str, Any]] = {
    "topics": {"resource_type_filter": 2},
    "a name": {"resource_name_filter": "t"},
    "what matches": {"resource_type_filter": 2, "resource_name_filter": "prefix", "pattern_type_filter": 2},
    "what matches, without a name": {"pattern_type_filter": 2},
    "what matches a star": {"resource_name_filter": "*", "pattern_type_filter": 2},
    "a star": {"resource_name_filter": "*", "pattern_type_filter": 3},
    "prefixes": {"pattern_type_filter": 4},
    "a prefix": {"resource_name_filter": "pre", "pattern_type_filter": 4},
    "a principal": {"principal_filter": "Group:x"},
    "no principal": {"principal_filter": "x"},
    "no name": {"resource_name_filter": ""},
    "a host": {"host_filter": "not a host"},
    "denials": {"permission_type": 2},
    "an operation": {"operation": 13},
    "an operation of unknown": {"operation": 0},
    "a type of unknown": {"resource_type_filter": 0},
    "a pattern of unknown": {"pattern_type_filter": 0},
    "no type": {"resource_type_filter": 99},
    "no operation": {"operation": 99},
    "the cluster": {"resource_name_filter": "kafka-cluster"},
    "everything": {},
}

TOKENS: dict[str, dict[str, Any]] = {
    "for oneself": {},
    "for five seconds": {"max_lifetime_ms": 5_000},
    "for none": {"max_lifetime_ms": 0},
    "for ever": {"max_lifetime_ms": MAX},
    "for less than none": {"max_lifetime_ms": MIN},
    "for another": {"owner_principal_type": "User", "owner_principal_name": "zed"},
    "for nobody": {"owner_principal_type": "User", "owner_principal_name": ""},
    "for no type": {"owner_principal_type": "", "owner_principal_name": "zed"},
    "renewed by a group": {"renewers": (CreatableRenewers(principal_type="Group", principal_name="g"),)},
    "renewed by another": {"renewers": (CreatableRenewers(principal_type="User", principal_name=RENEWER),)},
}

Answers = dict[str, Any]


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start both brokers itself")
    ours, theirs = asked(OttlaProcess), asked(ApacheKafkaProcess)
    suite.equal("questions", len(theirs), len(ours))
    for question, answer in theirs.items():
        if ours[question] != answer:
            suite.equal(question, answer, ours[question])
    same = sum(ours[question] == answer for question, answer in theirs.items())
    suite.equal(f"answers that are equal, of {len(theirs)}", len(theirs), same)


def asked(kind: type[BrokerProcess]) -> Answers:
    """Return the answers of a broker of this kind to all questions, by question."""
    with broker(kind) as (plain, sasl):
        return dict([*_of_acls(plain), *_of_tokens(plain, sasl)])


def _of_acls(plain: str) -> Iterator[tuple[str, Any]]:
    for version in (1, 3):
        for what, rows in CREATIONS.items():
            request: Any = CreateAclsRequest(creations=tuple(map(_creation, rows)))
            yield f"create {what}, version {version}", _ask(plain, None, request, version, _created)
    time.sleep(HOLDS_S)
    for version in (1, 3):
        for what, fields in FILTERS.items():
            described = _ask(plain, None, _filter(DescribeAclsRequest, fields), version, _described)
            yield f"describe {what}, version {version}", described
    for what, fields in FILTERS.items():
        request = DeleteAclsRequest(filters=(_filter(DeleteAclsFilter, fields),))
        yield f"delete {what}", _ask(plain, None, request, 3, _deleted)
    yield "delete nothing", _ask(plain, None, DeleteAclsRequest(filters=()), 3, _deleted)


def _of_tokens(plain: str, sasl: str) -> Iterator[tuple[str, Any]]:
    secret = b""

    def made(answer: Any) -> Any:
        nonlocal secret
        secret = answer.hmac
        issued_ms = answer.issue_timestamp_ms
        names = answer.principal_name, answer.token_requester_principal_name
        lasts = answer.expiry_timestamp_ms - issued_ms, answer.max_timestamp_ms - issued_ms
        return answer.error_code, names, min(issued_ms, 1), lasts, len(answer.token_id), len(answer.hmac)

    now_ms = time.time() * 1000

    def until(answer: Any) -> Any:
        at_ms = answer.expiry_timestamp_ms
        return answer.error_code, at_ms if at_ms <= 0 else round((at_ms - now_ms) / HOUR_MS)

    def shown(answer: Any) -> Any:
        rows = [(row.principal_name, row.token_requester_principal_name, len(row.renewers)) for row in answer.tokens]
        return answer.error_code, sorted(rows)

    yield "token over a plain channel", _ask(plain, None, _token({}), 3, made)
    for what, fields in TOKENS.items():
        yield f"token {what}", _ask(sasl, OWNER, _token(fields), 3, made)
    time.sleep(HOLDS_S)
    for user, period_ms in (
        (OWNER, HOUR_MS),
        (RENEWER, -1),
        (OTHER, -1),
        (OWNER, MAX),
        (OWNER, MIN),
        (None, -1),
    ):
        request: Any = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
        yield f"renewed by {user} for {period_ms}", _ask(sasl if user else plain, user, request, 2, until)
    request = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
    yield "renewed, unknown", _ask(sasl, OWNER, request, 2, until)
    for user in (OWNER, RENEWER, OTHER, None):
        for owners in (None, (), (OWNER,), (RENEWER,), ("zed",)):
            rows = None if owners is None else tuple(map(_owner, owners))
            request = DescribeDelegationTokenRequest(owners=rows)
            yield f"described to {user}: {owners}", _ask(sasl if user else plain, user, request, 3, shown)
    for user, period_ms in ((OWNER, 2 * HOUR_MS), (RENEWER, MAX), (OTHER, -1), (None, 1), (RENEWER, -1), (OWNER, -1)):
        request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
        yield f"expired by {user} in {period_ms}", _ask(sasl if user else plain, user, request, 2, until)
        time.sleep(HOLDS_S)


def _ask(address: str, user: str | None, request: Any, version: int, reduced: Callable[[Any], Any]) -> Any:
    host, _, port = address.rpartition(":")
    client = Client(host, int(port), timeout_s=60) if user is None else LoggedIn(host, int(port), user)
    try:
        return reduced(client.ask(request, version))
    except ConnectionError:
        return "closed"
    finally:
        client.close()


def _creation(fields: dict[str, Any]) -> AclCreation:
    good = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
    return AclCreation(**{**good, "permission_type": 3, **fields})


def _filter(kind: Callable[..., Any], fields: dict[str, Any]) -> Any:
    everything = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
    nothing = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    return kind(**{**everything, **nothing, **fields})


def _token(fields: dict[str, Any]) -> CreateDelegationTokenRequest:
    plain = {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1}
    return CreateDelegationTokenRequest(**{**plain, **fields})


def _owner(name: str) -> DescribeDelegationTokenOwner:
    return DescribeDelegationTokenOwner(principal_type="User", principal_name=name)


def _created(answer: Any) -> Any:
    return [(row.error_code, row.error_message) for row in answer.results]


def _described(answer: Any) -> Any:
    rows = [
        (
            of.resource_type,
            of.resource_name,
            of.pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        for of in answer.resources
        for row in of.acls
    ]
    return answer.error_code, answer.error_message, len(answer.resources), sorted(rows)


def _deleted(answer: Any) -> Any:
    return [
        (
            of.error_code,
            of.error_message,
            sorted(map(_row, of.matching_acls)),
        )
        for of in answer.filter_results
    ]


def _row(row: Any) -> Any:
    resource = row.resource_type, row.resource_name, row.pattern_type
    return (row.error_code, row.error_message, *resource, row.principal, row.host, row.operation, row.permission_type)


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.acl_requests", body, doc=__doc__))
