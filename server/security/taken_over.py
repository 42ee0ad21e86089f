"""Entries of the catalog of what Apache Kafka's metadata log says of clients: who may do what, and who logs in by what."""

from __future__ import annotations

from ...protocol.messages.cluster_metadata import AccessControlEntryRecord, DelegationTokenRecord
from ...protocol.scram import CODES, ScramCredential
from ...storage.topics.catalog_file import Sections
from ...storage.topics.client_records import ClientRecords
from ...storage.topics.entries import Facts
from .acls.acl import Acl
from .acls.kinds import AclOperation, PatternType, Permission, ResourceType
from .principal import Principal
from .sasl.scram_users import SCRAM_USERS, facts_of
from .tokens import Token


def sections_of(records: ClientRecords) -> Sections:
    """By section; none of them is empty.

    Raises:
        ValueError: A kind, mechanism or principal that this version does not know. An entry that was left out might be one
            that denies.
    """
    users: dict[str, Facts] = {}
    for (user, code), each in records.credentials.items():
        if code not in CODES:
            raise ValueError(f"unknown SCRAM mechanism {code}")
        credential = ScramCredential(each.salt, each.stored_key, each.server_key, each.iterations)
        users[user] = {**users.get(user, {}), **facts_of({CODES[code]: credential})}
    found: Sections = {
        "acls": {str(acl): acl.facts() for acl in map(_acl, records.acls.values())},
        "delegation_tokens": {token_id: _token(each).facts() for token_id, each in records.tokens.items()},
        SCRAM_USERS: users,
    }
    return {section: entries for section, entries in found.items() if entries}


def _acl(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperation(record.operation),
        Permission(record.permission_type),
    )


def _token(record: DelegationTokenRecord) -> Token:
    return Token(
        record.token_id,
        Principal.parse(record.owner),
        Principal.parse(record.requester),
        tuple(map(Principal.parse, record.renewers)),
        record.issue_timestamp,
        record.expiration_timestamp,
        record.max_timestamp,
    )
