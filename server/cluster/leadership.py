"""Leader election when nodes stop and start, by the rules of Apache Kafka's controller.

A node that stops leaves the ISR, unless it is its last member: the partition then waits for that node. The leader stays as long
as it is alive. The next leader is the first live replica, in the order of the assignment, that is in the ISR. If no member of
the ISR is alive, it is the first one of the eligible leader replicas (KIP-966): those that left the ISR while it was smaller
than `min.insync.replicas`. With `unclean.leader.election.enable` any live replica may lead if none of these is alive. All
replicas are one log here, so a replica that returns is in sync at once, and no election loses records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..partitions.topics import NO_LEADER


class Leadership(NamedTuple):
    """Leader and in-sync replicas of one partition; a live leader is always in the ISR."""

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
    """Return the leadership that follows the `present` one when exactly the nodes `live` are alive. The replicas `elr` are
    eligible in addition to the ISR."""
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
    """Return the eligible leader replicas in addition to a `new` leadership, ascending, by the rules of Apache Kafka's
    controller.

    Args:
        elr: Eligible leader replicas of the `present` leadership.
        min_isr: `min.insync.replicas`; 0: no replica is eligible, as the feature is off.

    Without a leader, `isr` still has its last members although it counts as empty. These are also eligible, but not in the
    result.
    """
    in_sync = () if new.leader == NO_LEADER else new.isr
    before = {*present.isr, *elr}
    is_unclean = in_sync and before.isdisjoint(in_sync)
    if is_unclean or len(in_sync) >= min(min_isr, len(replicas)):
        return ()
    return tuple(sorted(before.intersection(replicas).difference(new.isr)))


def first_leadership(replicas: tuple[int, ...], live: Collection[int]) -> Leadership:
    """Return the leadership of a new partition."""
    isr = tuple(node_id for node_id in replicas if node_id in live)
    return Leadership(isr[0], isr) if isr else Leadership(NO_LEADER, replicas)
