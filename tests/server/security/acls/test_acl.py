"""ACL entries as text and in the catalog's form."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.security.acls.acl import Acl, parse
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from support.noted import each_case

READ = {
    "User:alice allow READ topic:orders": ["TOPIC LITERAL orders User:alice * READ ALLOW"],
    "User:alice Allow read,write topic:orders-*": [
        "TOPIC PREFIXED orders- User:alice * READ ALLOW",
        "TOPIC PREFIXED orders- User:alice * WRITE ALLOW",
    ],
    "User:* deny all topic:* from 10.0.0.7": ["TOPIC LITERAL * User:* 10.0.0.7 ALL DENY"],
    "User:a allow idempotent-write cluster": ["CLUSTER LITERAL kafka-cluster User:a * IDEMPOTENT_WRITE ALLOW"],
    "User:a allow ALTER cluster:kafka-cluster": ["CLUSTER LITERAL kafka-cluster User:a * ALTER ALLOW"],
    'User:CN=a,O=b allow DescribeConfigs "topic:a b*" literal': [
        "TOPIC LITERAL a b* User:CN=a,O=b * DESCRIBE_CONFIGS ALLOW"
    ],
    '"User:a \\"b\\"" allow WRITE transactional-id:t:1': ['TRANSACTIONAL_ID LITERAL t:1 User:a "b" * WRITE ALLOW'],
}


@pytest.mark.parametrize(("text", "entries"), READ.items(), ids=list(READ))
def test_a_line_gives_one_entry_per_operation(text: str, entries: list[str]) -> None:
    found = [
        f"{acl.resource_type.name} {acl.pattern.name} {acl.name} {acl.principal} {acl.host} {acl.operation.name}"
        f" {acl.permission.name}"
        for acl in parse(text)
    ]
    assert found == entries


REFUSED = {
    "": "expected PRINCIPAL allow|deny OPERATIONS TYPE:NAME",
    "User:alice allow READ": "expected PRINCIPAL allow|deny OPERATIONS TYPE:NAME",
    "alice allow READ topic:t": "'alice': invalid principal; expected TYPE:NAME, e.g. User:alice",
    "User:alice may READ topic:t": "'may': invalid permission; expected one of: DENY, ALLOW",
    "User:alice allow FLY topic:t": "'FLY': invalid operation; expected one of: ALL, READ, WRITE",
    "User:alice allow READ,ANY topic:t": "'ANY': invalid operation",
    "User:alice allow READ, topic:t": "'': invalid operation",
    "User:alice allow READ tropic:t": "'tropic': invalid resource type; expected one of: TOPIC, GROUP",
    "User:alice allow READ topic:": "Invalid empty resource name",
    "User:alice allow READ cluster:other": "The only valid name for the CLUSTER resource is kafka-cluster",
    "User:alice allow READ topic:t at 10.0.0.1": "unexpected 'at 10.0.0.1'",
    "User:alice allow READ topic:t from": "unexpected 'from'",
    'User:alice allow READ "topic:t': "invalid quotes",
    'User:alice allow READ "topic:\\x"': "is not a valid JSON string",
    'User:a allow READ "topic:\\ud800"': "must be valid Unicode",
    "User:a allow READ topic:" + "t" * 70_000: "limit 65536",
}


@each_case("text, said", REFUSED.items(), ids=[text[:40] for text in REFUSED])
def test_an_invalid_entry_is_refused_with_the_expected_form(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        list(parse(text))


ANY = st.builds(
    Acl,
    st.sampled_from([each for each in ResourceType if each > ResourceType.ANY and each is not ResourceType.CLUSTER]),
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.text(st.characters(codec="utf-8")).map("User:{}".format),
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(ANY)
def test_each_entry_reads_back_from_its_text_and_its_stored_form(acl: Acl) -> None:
    assert list(parse(str(acl))) == [acl]
    assert Acl.from_facts(acl.facts()) == acl
