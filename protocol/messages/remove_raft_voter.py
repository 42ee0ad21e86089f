"""RemoveRaftVoter (key 81, version 0): a controller votes no more on the metadata log (KIP-853)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int16, Int32, String, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterRequest:
    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
