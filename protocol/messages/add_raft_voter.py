"""AddRaftVoter (key 80, versions 0–1): a further controller votes on the metadata log (KIP-853).

1 says whether to wait until the new set of voters is committed (KIP-1186).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int16, Int32, String, Uuid, since
from .describe_quorum import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoterRequest:
    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    ack_when_committed: Annotated[Bool, since(1)] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
