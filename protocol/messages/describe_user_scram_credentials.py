"""DescribeUserScramCredentials (key 50, version 0): which users log in by SCRAM, and with how many iterations (KIP-554)."""

from dataclasses import dataclass

from ..wire import Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class UserName:
    name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInfo:
    mechanism: Int8 = 0
    iterations: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
