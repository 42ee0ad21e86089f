"""What clients have set in Apache Kafka beside topics and configs, as its metadata log has it: who may do what, and how much."""

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
"""Types and names, in order; a name of None is the default of its type."""


class ClientRecords:
    """What holds after the records so far. Whose it is makes entries of the catalog of it."""

    def __init__(self) -> None:
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        """By their ids."""
        self.credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        """By user, and the code of the mechanism."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        """By their ids."""

    def take(self, record: ClientRecord) -> None:
        """One more. What is to be removed need not be there."""
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
