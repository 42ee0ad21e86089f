"""Client settings in Apache Kafka's metadata log, apart from topics and configs: ACLs, credentials, tokens and quotas."""

from __future__ import annotations

from operator import itemgetter
from typing import TypeAlias

from ...protocol.messages.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

ClientRecord: TypeAlias = (
    AccessControlEntryRecord
    | ClientQuotaRecord
    | DelegationTokenRecord
    | RemoveAccessControlEntryRecord
    | RemoveDelegationTokenRecord
    | RemoveUserScramCredentialRecord
    | UserScramCredentialRecord
)

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, in order; a name of None is the default of its type."""


class ClientRecords:
    """State after the records so far. The server makes catalog entries from it."""

    def __init__(self) -> None:
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        """ACLs by ID."""
        self.credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        """SCRAM credentials by user and mechanism code."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        """Delegation tokens by ID."""

    def take(self, record: ClientRecord) -> None:
        """Apply one more record. An entry that a record removes need not exist."""
        match record:
            case AccessControlEntryRecord():
                self.acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case UserScramCredentialRecord():
                self.credentials[record.name, record.mechanism] = record
            case RemoveUserScramCredentialRecord():
                self.credentials.pop((record.name, record.mechanism), None)
            case DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case ClientQuotaRecord():
                entity = tuple(
                    sorted(((part.entity_type, part.entity_name) for part in record.entity), key=itemgetter(0))
                )
                values = self.quotas.setdefault(entity, {})
                if record.remove:
                    values.pop(record.key, None)
                else:
                    values[record.key] = record.value
