"""Members of a share group in a `Chaos`, and their requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from ottla.protocol.messages import share_acknowledge as acknowledging
from ottla.protocol.messages import share_fetch as fetching
from ottla.protocol.messages.share_fetch import AcknowledgementBatch
from support.broker.contexts import Staying

Says: TypeAlias = dict[int, int]
"""Offset -> type of the acknowledgement."""


@dataclass
class Connection:
    """A connection of a member to a node, with its share session.

    Attributes:
        epoch: The epoch of the session's next request; 0: without a session.
        places: The partitions in the session.
        parked: Set while a fetch waits for its answer.
    """

    member: Member
    node: int
    client: Staying = field(default_factory=Staying)
    epoch: int = 0
    places: frozenset[int] = frozenset()
    parked: trio.CancelScope | None = None

    def close(self) -> None:
        if self.parked is not None:
            self.parked.cancel()
        if self.client.farewell is not None:
            self.client.farewell()


@dataclass
class Member:
    name: str
    epoch: int = 0
    assigned: frozenset[int] = frozenset()
    connections: dict[int, Connection] = field(default_factory=dict)
    """Connections by node."""


def fetch_request(
    group: str,
    connection: Connection,
    topic_id: bytes,
    places: frozenset[int],
    says: dict[int, Says],
    *,
    max_wait_ms: int,
    max_records: int,
    batch_size: int,
    mode: int,
) -> fetching.ShareFetchRequest:
    """Return the next fetch of a session, which has these partitions from then on."""
    known = connection.places if connection.epoch else frozenset[int]()
    rows = tuple(
        fetching.FetchPartition(
            partition_index=one,
            acknowledgement_batches=tuple(
                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in _batches(says.get(one, {}))
            ),
        )
        for one in sorted((places - known) | says.keys())
    )
    gone = tuple(sorted(known - places))
    return fetching.ShareFetchRequest(
        group_id=group,
        member_id=connection.member.name,
        share_session_epoch=connection.epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=max_records,
        batch_size=batch_size,
        share_acquire_mode=mode,
        topics=(fetching.FetchTopic(topic_id=topic_id, partitions=rows),) if rows else (),
        forgotten_topics_data=(fetching.ForgottenTopic(topic_id=topic_id, partitions=gone),) if gone else (),
    )


def acknowledge_request(
    group: str, connection: Connection, topic_id: bytes, says: dict[int, Says], epoch: int, *, renews: bool
) -> acknowledging.ShareAcknowledgeRequest:
    rows = tuple(
        acknowledging.AcknowledgePartition(
            partition_index=partition,
            acknowledgement_batches=tuple(
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in _batches(offsets)
            ),
        )
        for partition, offsets in says.items()
    )
    return acknowledging.ShareAcknowledgeRequest(
        group_id=group,
        member_id=connection.member.name,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=(acknowledging.AcknowledgeTopic(topic_id=topic_id, partitions=rows),) if rows else (),
    )


def _batches(says: Says) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return first offset, last offset and types for each run of consecutive offsets."""
    found: list[tuple[int, int, tuple[int, ...]]] = []
    for offset, kind in sorted(says.items()):
        if found and found[-1][1] == offset - 1:
            first, _, types = found.pop()
            found.append((first, offset, (*types, kind)))
        else:
            found.append((offset, offset, (kind,)))
    return found
