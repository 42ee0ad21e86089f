"""Leaders of partitions, and nodes of replicas: tables of cases, and rules for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.cluster.leadership import Leadership, elect, eligible, first_leadership
from ottla.server.cluster.nodes import Node
from ottla.server.cluster.topic_plans import check_assignments, spread
from ottla.server.partitions.topics import NO_LEADER
from support.noted import each_case

# The resulting leadership (leader, ISR) of replicas 0, 1, 2 when these nodes are alive.
ELECTIONS = {
    "the leader lives on": ((1, (0, 1, 2)), {0, 1, 2}, False, (1, (0, 1, 2))),
    "a follower stops": ((1, (0, 1, 2)), {0, 1}, False, (1, (0, 1))),
    "the first replica in the ISR follows": ((0, (2, 1, 0)), {1, 2}, False, (1, (2, 1))),
    "not one that is out of it": ((0, (0, 2)), {1, 2}, False, (2, (2, 1))),
    "the last one in step is waited for": ((2, (2,)), set(), False, (NO_LEADER, (2,))),
    "by others who are not": ((2, (2,)), {0, 1}, False, (NO_LEADER, (2,))),
    "it comes back to lead": ((NO_LEADER, (2,)), {2}, False, (2, (2,))),
    "who came before it joins it": ((NO_LEADER, (2,)), {0, 2}, False, (2, (2, 0))),
    "an unclean leader need not be in step": ((NO_LEADER, (2,)), {0, 1}, True, (0, (0, 1))),
    "nor can a dead one be one": ((2, (2,)), set(), True, (NO_LEADER, (2,))),
    "a follower comes back": ((1, (1, 2)), {0, 1, 2}, False, (1, (1, 2, 0))),
}


@each_case("present, live, unclean, expected", ELECTIONS.values(), ids=ELECTIONS)
def test_elections_follow_the_table(
    present: tuple[int, tuple[int, ...]], live: set[int], unclean: bool, expected: tuple[int, tuple[int, ...]]
) -> None:
    assert elect((0, 1, 2), Leadership(*present), live, unclean=unclean) == expected


@pytest.mark.parametrize(
    ("live", "expected"), [({0, 1, 2}, (2, (2, 0))), ({0, 1}, (0, (0,))), ({1}, (NO_LEADER, (2, 0)))]
)
def test_a_new_partition_is_led_by_its_first_live_replica(live: set[int], expected: object) -> None:
    assert first_leadership((2, 0), live) == expected


# The live nodes one after the other, with min.insync.replicas; the final leader, the ISR, and the other eligible replicas.
ELIGIBLE = {
    "the ISR is large enough": ([{1, 2}], 2, (1, (1, 2), ())),
    "it is too small": ([{1, 2}, {2}], 2, (2, (2,), (1,))),
    "who left before is not eligible": ([{1, 2}, {2}, set()], 2, (NO_LEADER, (2,), (1,))),
    "an eligible one leads": ([{1, 2}, {2}, set(), {1}], 2, (1, (1,), (2,))),
    "others do not": ([{1, 2}, {2}, set(), {0}], 2, (NO_LEADER, (2,), (1,))),
    "but join": ([{1, 2}, {2}, set(), {0}, {0, 1}], 2, (1, (1, 0), ())),
    "of all replicas": ([{1, 2}, {2}, set()], 5, (NO_LEADER, (2,), (0, 1))),
    "one is enough": ([{1, 2}, {2}, set()], 1, (NO_LEADER, (2,), ())),
    "the feature is off": ([{1, 2}, {2}, set(), {1}], 0, (NO_LEADER, (2,), ())),
}


@pytest.mark.parametrize(("lives", "min_isr", "expected"), ELIGIBLE.values(), ids=ELIGIBLE)
def test_eligible_replicas_follow_the_changes_of_the_isr(lives: list[set[int]], min_isr: int, expected: object) -> None:
    replicas, elr = (0, 1, 2), tuple[int, ...]()
    present = first_leadership(replicas, replicas)
    for live in lives:
        new = elect(replicas, present, live, unclean=False, elr=elr)
        elr = eligible(replicas, present, elr, new, min_isr)
        present = new
    assert (*present, elr) == expected


def test_after_an_unclean_election_no_other_replica_is_eligible() -> None:
    present = Leadership(NO_LEADER, (2,))
    new = elect((0, 1, 2), present, {0}, unclean=True, elr=(1,))
    assert (new, eligible((0, 1, 2), present, (1,), new, 2)) == ((0, (0,)), ())


@given(
    st.lists(st.frozensets(st.integers(0, 3)), max_size=12),
    st.permutations(range(4)),
    st.booleans(),
    st.integers(0, 4),
)
def test_a_leader_is_alive_and_in_the_never_empty_isr(
    lives: list[frozenset[int]], replicas: Sequence[int], unclean: bool, min_isr: int
) -> None:
    assigned, elr = tuple(replicas[:3]), tuple[int, ...]()
    present = first_leadership(assigned, assigned)
    for live in lives:
        new = elect(assigned, present, live, unclean=unclean, elr=elr)
        elr = eligible(assigned, present, elr, new, min_isr)
        present = new
        assert present.isr
        assert set(present.isr) <= set(assigned)
        assert set(elr) <= set(assigned) - set(present.isr) - live
        if present.leader == NO_LEADER:
            assert not live & set(assigned if unclean else (*present.isr, *elr))
        else:
            assert present.leader in present.isr
            assert set(present.isr) == live & set(assigned)


# Placement


def nodes(*racks: str | None, stopped: Sequence[int] = ()) -> list[Node]:
    """Return nodes 0, 1, …, each in a rack, without listeners."""
    return [Node(number, [], rack, is_alive=number not in stopped) for number, rack in enumerate(racks)]


PLACEMENTS = {
    "in turn": (nodes(None, None, None), 4, 2, 0, ((0, 1), (1, 2), (2, 0), (0, 1))),
    "from a start on": (nodes(None, None, None), 2, 1, 2, ((2,), (0,))),
    "other racks first": (nodes("a", "a", "b", "b"), 4, 2, 0, ((0, 2), (2, 1), (1, 3), (3, 0))),
    "racks of unequal size": (nodes("a", "a", "a", "b"), 4, 2, 0, ((0, 3), (3, 1), (1, 3), (3, 2))),
    "more replicas than racks": (nodes("a", "a", "b"), 2, 3, 0, ((0, 2, 1), (2, 1, 0))),
    "stopped nodes come last": (nodes(None, None, None, stopped=[0]), 2, 3, 0, ((1, 2, 0), (2, 1, 0))),
    "and hold nothing where the others suffice": (nodes(None, None, None, stopped=[0]), 2, 2, 0, ((1, 2), (2, 1))),
}


@pytest.mark.parametrize(("cluster", "count", "factor", "start", "expected"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_placements_follow_the_table(
    cluster: list[Node], count: int, factor: int, start: int, expected: object
) -> None:
    assert spread(cluster, count, factor, start) == expected


@given(st.data(), st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.integers(0, 50))
def test_replicas_are_on_different_nodes_and_as_many_racks_as_possible(
    data: st.DataObject, racks: list[str], start: int
) -> None:
    cluster = nodes(*racks)
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in spread(cluster, 5, factor, start):
        assert len(set(replicas)) == factor
        assert len({racks[node_id] for node_id in replicas}) == min(factor, len(set(racks)))


@given(st.integers(1, 3), st.integers(1, 3), st.data(), st.integers(0, 50))
def test_equal_racks_carry_equal_loads(racks: int, size: int, data: st.DataObject, start: int) -> None:
    cluster = nodes(*(str(rack) for rack in range(racks) for _ in range(size)))
    factor = data.draw(st.integers(1, len(cluster)))
    placed = spread(cluster, 2 * len(cluster), factor, start)
    assert set(Counter(node_id for replicas in placed for node_id in replicas).values()) == {2 * factor}
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}


@pytest.mark.parametrize(
    ("cluster", "factor", "message"),
    [
        (nodes(None, None, stopped=[0]), 3, "of 3 cannot be reached because only 2 broker"),
        (nodes(None, None, stopped=[0, 1]), 1, "All brokers are currently fenced"),
    ],
)
def test_an_impossible_placement_is_refused(cluster: list[Node], factor: int, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        spread(cluster, 1, factor, 0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_client_may_assign_stopped_nodes_if_one_is_live() -> None:
    cluster = nodes(None, None, None, stopped=[0, 1])
    check_assignments(cluster, {0: (0, 2), 1: (2, 1)}, 2)
    with pytest.raises(KafkaError, match="for partition 1 are fenced") as refused:
        check_assignments(cluster, {0: (0, 2), 1: (0, 1)}, 2)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
