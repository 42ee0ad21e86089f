"""AlterUserScramCredentials (key 51, version 0): give users credentials for SCRAM, or take them away (KIP-554)."""

from dataclasses import dataclass, field

from ..wire import Bytes, Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialDeletion:
    name: String = ""
    mechanism: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialUpsertion:
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = field(default=b"", repr=False)
    salted_password: Bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
