"""Who leads a partition while nodes come and go, by the rules of Apache Kafka's controller.

A node that stops leaves the ISR, unless it is the last one in it: whoever was in step last is the one to wait for. The
leader stays as long as it lives; after it comes the first replica, in the order of the assignment, that is alive and in
the ISR, or, when none of that lives, among the eligible leader replicas (KIP-966): those that left the ISR while it was
smaller than `min.insync.replicas`. With `unclean.leader.election.enable` any live replica may lead when none of either lives.
All replicas are one log here, so a replica that comes back is in step at once, and no choice loses records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..partitions.topics import NO_LEADER


class Leadership(NamedTuple):
    """Leader and in-sync replicas of one partition; a live leader is always among the latter."""

    leader: int
    isr: tuple[int, ...]


def elect(
    replicas: tuple[int, ...],
    present: Leadership,
    live: Collection[int],
    *,
    unclean: bool,
    elr: Collection[int] = (),
) -> Leadership:
    """What becomes of the `present` leadership, beside which the replicas `elr` are eligible, when exactly the nodes `live` are
    alive."""
    isr = tuple(node_id for node_id in present.isr if node_id in live)
    if not isr:
        isr = tuple(node_id for node_id in replicas if node_id in live and node_id in elr)[:1]
    if not isr and unclean:
        isr = tuple(node_id for node_id in replicas if node_id in live)[:1]
    if not isr:
        return Leadership(NO_LEADER, present.isr)
    leader = present.leader if present.leader in isr else next(node_id for node_id in replicas if node_id in isr)
    back = tuple(node_id for node_id in replicas if node_id in live and node_id not in isr)
    return Leadership(leader, isr + back)


def eligible(
    replicas: tuple[int, ...], present: Leadership, elr: Collection[int], new: Leadership, min_isr: int
) -> tuple[int, ...]:
    """The eligible leader replicas beside a `new` leadership, ascending, as Apache Kafka's controller counts them.

    Args:
        elr: Those beside the `present` one.
        min_isr: `min.insync.replicas`; 0: none is ever eligible, the feature is off.

    While nobody leads, the ISR that was last stands for an empty one, and its members are eligible, too, without being told.
    """
    in_sync = () if new.leader == NO_LEADER else new.isr
    before = {*present.isr, *elr}
    is_unclean = in_sync and before.isdisjoint(in_sync)
    if is_unclean or len(in_sync) >= min(min_isr, len(replicas)):
        return ()
    return tuple(sorted(before.intersection(replicas).difference(new.isr)))


def first_leadership(replicas: tuple[int, ...], live: Collection[int]) -> Leadership:
    """The leadership of a new partition."""
    isr = tuple(node_id for node_id in replicas if node_id in live)
    return Leadership(isr[0], isr) if isr else Leadership(NO_LEADER, replicas)
