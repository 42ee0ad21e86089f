"""The sticky task assignor: every task active once, standbys in other processes, tasks that stay in place, short steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import pytest

from ottla.protocol.messages.streams_group_heartbeat import TaskOffset
from ottla.server.coordination.jobs import A_PIECE, to_the_end
from ottla.server.groups.streams.assignor import AssignedMember, LeastFirst, _Work, sticky
from ottla.server.groups.streams.configured import ConfiguredSubtopology, InternalTopic
from ottla.server.groups.streams.member import NO_TASKS, StreamsTasks
from support.noted import each_case
from support.sizes import size

Members = Mapping[str, AssignedMember]


def one(tasks: int, *, is_stateful: bool = False) -> ConfiguredSubtopology:
    changelogs = (InternalTopic("c", tasks, 0, {}),) if is_stateful else ()
    return ConfiguredSubtopology(tasks, ("t",), (), (), changelogs)


def fresh(**processes: str) -> Members:
    """Return member -> process."""
    return {member: AssignedMember(process, NO_TASKS) for member, process in processes.items()}


def again(members: Members, before: Mapping[str, StreamsTasks]) -> Members:
    return {key: AssignedMember(member.process_id, before.get(key, NO_TASKS)) for key, member in members.items()}


def assigned(
    members: Members, subtopologies: Mapping[str, ConfiguredSubtopology], standbys: int = 0
) -> dict[str, StreamsTasks]:
    found = to_the_end(sticky(members, dict(sorted(subtopologies.items())), standbys))
    assert found.keys() == members.keys()
    tasks = {(key, index) for key, sub in subtopologies.items() for index in range(sub.tasks)}
    active = [(key, index) for one in found.values() for key, parts in one.active.items() for index in parts]
    assert Counter(active) == Counter(tasks), "every task is active once"
    has = Counter(
        (members[member].process_id, key, index)
        for member, one in found.items()
        for places in (one.active, one.standby)
        for key, parts in places.items()
        for index in parts
    )
    assert not has or max(has.values()) == 1, "a process has a task once"
    stateful = {task for task in tasks if subtopologies[task[0]].changelogs}
    held = Counter((key, index) for one in found.values() for key, parts in one.standby.items() for index in parts)
    processes = len({member.process_id for member in members.values()})
    assert held == Counter(dict.fromkeys(stateful, min(standbys, processes - 1)))
    return found


def sizes(found: Mapping[str, StreamsTasks]) -> dict[str, int]:
    return {member: sum(map(len, (*one.active.values(), *one.standby.values()))) for member, one in found.items()}


def test_tasks_are_spread_evenly_and_a_range_at_a_time_by_subtopology() -> None:
    found = assigned(fresh(a="p", b="q"), {"0": one(4), "1": one(4)})
    assert found["b"].active == {"0": {0, 2}, "1": {0, 2}}
    assert found["a"].active == {"0": {1, 3}, "1": {1, 3}}


def test_processes_with_more_members_get_more() -> None:
    found = assigned(fresh(a="p", b="p", c="q"), {"0": one(9)})
    assert sizes(found) == {"a": 3, "b": 3, "c": 3}


def test_only_necessary_moves_are_made() -> None:
    members = fresh(a="p", b="q", c="r")
    before = assigned(members, {"0": one(9, is_stateful=True)}, 1)
    assert assigned(again(members, before), {"0": one(9, is_stateful=True)}, 1) == before
    more = {**again(members, before), "d": AssignedMember("s", NO_TASKS)}
    after = assigned(more, {"0": one(9, is_stateful=True)}, 1)
    moved = sum(len(before[key].active["0"] - after[key].active.get("0", frozenset())) for key in "abc")
    assert moved <= 3


def test_the_standby_takes_over_active_tasks_of_a_departed_member() -> None:
    members = fresh(a="p", b="q")
    before = assigned(members, {"0": one(4, is_stateful=True)}, 1)
    rest = {"b": AssignedMember("q", before["b"])}
    assert assigned(rest, {"0": one(4, is_stateful=True)}, 1)["b"].active == {"0": {0, 1, 2, 3}}


def test_a_former_active_member_becomes_the_standby() -> None:
    before = {"a": StreamsTasks({"0": frozenset({0, 1})}), "b": StreamsTasks({"0": frozenset({2, 3})})}
    members = again(fresh(a="p", b="q"), before)
    found = assigned(members, {"0": one(4, is_stateful=True)}, 1)
    assert {key: one.active for key, one in found.items()} == {key: one.active for key, one in before.items()}
    assert found["a"].standby == {"0": {2, 3}}
    assert found["b"].standby == {"0": {0, 1}}


def stored(*offsets: int) -> tuple[TaskOffset, ...]:
    """Return what a member reports that has state of the first tasks, up to these offsets."""
    return tuple(TaskOffset(subtopology_id="0", partition=at, offset=one) for at, one in enumerate(offsets))


def test_a_member_with_state_of_a_task_gets_it_and_the_one_with_more_of_it_first() -> None:
    shapes = {"0": one(2, is_stateful=True)}
    members = {
        "a": AssignedMember("p", NO_TASKS, stored(7, 7)),
        "b": AssignedMember("q", NO_TASKS),
        "c": AssignedMember("r", NO_TASKS, stored(8, 9)),
    }
    assert assigned(members, shapes)["c"].active == {"0": {0}}
    assert assigned(members, shapes)["a"].active == {"0": {1}}, "c has as many tasks as it may"
    unknown = (*stored(), TaskOffset(subtopology_id="0", partition=2), TaskOffset(subtopology_id="x"))
    assert assigned({"a": AssignedMember("p", NO_TASKS, unknown)}, shapes)["a"].active == {"0": {0, 1}}


def test_a_standby_is_before_a_member_that_only_reports_offsets() -> None:
    members = {
        "a": AssignedMember("p", NO_TASKS, stored(9)),
        "b": AssignedMember("q", StreamsTasks(standby={"0": frozenset({0})}), stored(1)),
        "c": AssignedMember("r", StreamsTasks(standby={"0": frozenset({0})}), stored(2)),
    }
    found = assigned(members, {"0": one(1, is_stateful=True)}, 1)
    assert found["c"].active == {"0": {0}}
    assert found["b"].standby == {"0": {0}}


def test_a_process_that_has_the_task_is_no_candidate_for_its_standby() -> None:
    """Up to Apache Kafka 4.3, no member was, if the process of the first had it."""
    had = StreamsTasks(standby={"0": frozenset({0})})
    members = {
        "a": AssignedMember("p", StreamsTasks(active={"0": frozenset({0})})),
        "b": AssignedMember("p", had),
        "c": AssignedMember("q", NO_TASKS),
        "d": AssignedMember("r", had),
    }
    assert assigned(members, {"0": one(1, is_stateful=True)}, 1)["d"].standby == {"0": {0}}


def test_one_process_has_no_standbys_and_stateless_tasks_have_none() -> None:
    assert not assigned(fresh(a="p", b="p"), {"0": one(4, is_stateful=True)}, 2)["a"].standby
    assert not assigned(fresh(a="p", b="q"), {"0": one(4)}, 2)["a"].standby


def test_without_tasks_assignments_are_empty() -> None:
    assert assigned(fresh(a="p"), {}) == {"a": NO_TASKS}


@each_case("seed", range(size(20, 60)))
def test_changing_members_and_topics_keep_all_guarantees(seed: int) -> None:
    rng = random.Random(seed)
    standbys = rng.randrange(3)
    members: dict[str, AssignedMember] = {}
    before: dict[str, StreamsTasks] = {}
    shapes = {str(key): one(rng.randint(1, 12), is_stateful=rng.random() < 0.6) for key in range(rng.randint(1, 4))}
    for step in range(12):
        for _ in range(rng.randint(1, 3)):
            members[f"m{step}-{rng.randrange(9)}"] = AssignedMember(f"p{rng.randrange(5)}", NO_TASKS)
        while len(members) > 1 and rng.random() < 0.5:
            del members[rng.choice(list(members))]
        if rng.random() < 0.3:
            shapes["0"] = one(rng.randint(1, 12), is_stateful=rng.random() < 0.6)
        before = assigned(again(members, before), shapes, standbys)
        active = [sum(map(len, found.active.values())) for found in before.values()]
        assert max(active) <= 2 + -(-sum(sub.tasks for sub in shapes.values()) // len(members)), (seed, step)


def test_no_piece_looks_at_more_than_one_task() -> None:
    """With 5 000 subtopologies, one of which has many tasks, the others are not walked for each of these."""
    shapes = {f"{key:04}": one(1) for key in range(1_000)} | {"x": one(20_000)}
    steps = sticky(fresh(a="p", b="q"), shapes, 0)
    assert sum(1 for _ in steps) < 6 * 21_000


def test_a_piece_ends_by_tasks_not_by_members() -> None:
    """Fewer than a hundred members may have a hundred thousand tasks."""
    shapes = {f"{key:02}": one(100) for key in range(50)}
    members = fresh(**{f"m{number:02}": f"p{number}" for number in range(99)})
    tasks_a_piece, of_the_rules = 200, 2 * 5_000 // 100
    assert sum(1 for _ in sticky(members, shapes, 0)) > of_the_rules + 5_000 // tasks_a_piece
    steps = sticky(again(members, assigned(members, shapes)), shapes, 0)
    assert sum(1 for _ in steps) > 5_000 // 100 + 2 * 5_000 // tasks_a_piece


@pytest.mark.parametrize("is_standby", [False, True])
def test_a_piece_looks_at_few_of_the_tasks_that_a_member_has_state_of(is_standby: bool) -> None:
    count = 10_000
    offsets = [TaskOffset(subtopology_id="0", partition=at, offset=1) for at in range(count)]
    before = StreamsTasks(standby={"0": frozenset(range(count))})
    members = {"a": AssignedMember("p", before) if is_standby else AssignedMember("p", NO_TASKS, offsets)}
    work = _Work(members, {"0": one(count)}, 0)
    sizes = [0, *(len(work._candidates) for _ in work.remember())]
    assert max(later - earlier for earlier, later in pairwise(sizes)) <= A_PIECE


def test_a_piece_looks_at_the_candidates_of_one_task() -> None:
    offsets = [TaskOffset(subtopology_id="0", partition=at, offset=1) for at in range(100)]
    members = {f"m{number}": AssignedMember(f"p{number}", NO_TASKS, offsets) for number in range(A_PIECE)}
    work = _Work(members, {"0": one(100)}, 0)
    to_the_end(work.remember())
    assert sum(1 for _ in work.assign_active()) >= 100


FROM_JAVA = {
    1: "aaa",
    2: "abbabb",
    3: "acbbcbaba",
    4: "adbcbdbdcabd",
    5: "aebdcdbdbcaebdb",
    6: "afbdecbfdfdcaebfdb",
    7: "agbdecfbfdfdcagbefdbd",
}
"""The order in which a java.util.PriorityQueue (OpenJDK 17) returns this many members that begin without tasks.

A member that is taken gets one more task and is put back; a task of each second member counts as a half.
"""


@pytest.mark.parametrize(("number", "order"), FROM_JAVA.items())
def test_ties_are_resolved_as_by_apache_kafkas_priority_queue(number: int, order: str) -> None:
    waiting = LeastFirst((0.0, at) for at in range(number))
    has, found = [0] * number, ""
    for _ in order:
        at = waiting.take()
        has[at] += 1
        waiting.add(has[at] / (1 + at % 2), at)
        found += "abcdefg"[at]
    assert found == order
