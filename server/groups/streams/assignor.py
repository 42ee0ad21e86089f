"""Apache Kafka's sticky task assignor, which distributes tasks over members and their processes, given the tasks that they have.

Every task is active with one member. A task with state also has the configured number of standbys, in processes that do not
have it yet. Members keep their tasks, and their standby tasks become active first, as long as all members have about the same
number of tasks. A member that reports an offset of a task has state of it, and is the next candidate after the standbys. The
remaining tasks go to the process with the fewest tasks per member, and there to the member with the fewest.

It works in pieces, and sorts nothing: tasks are generated in the order in which they are needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from math import inf
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from ....protocol.messages.streams_group_heartbeat import TaskOffset
from ...coordination.jobs import A_PIECE, Job, Steps
from .configured import ConfiguredSubtopology
from .member import Owned, StreamsTasks

Task = tuple[str, int]
Given = defaultdict[str, defaultdict[str, set[int]]]
"""Member id -> subtopology -> partitions."""

T = TypeVar("T")


class Candidate(NamedTuple):
    """A member with state of a task. Standbys come first, and then the member with the most offsets."""

    is_reporter: bool
    lag: int
    """The negative offset that the member has reported of the task; 0 for none."""
    member_id: str


class LeastFirst(Generic[T]):
    """A binary heap: who has the least comes first; of those who have as much, who would at Apache Kafka.

    Its task assignor takes from a `java.util.PriorityQueue`, in which ties come out in an order that follows from the heap alone, and
    is not the one in which they were put in. With the same heap the same members are given the same tasks. Adding and taking compare
    as often as there are levels, at most twice.
    """

    def __init__(self, items: Iterable[tuple[float, T]] = ()) -> None:
        self._heap: list[tuple[float, T]] = []
        for amount, item in items:
            self.add(amount, item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def first(self) -> T:
        """The item that is taken next. The heap must not be empty."""
        return self._heap[0][1]

    def add(self, amount: float, item: T) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append((amount, item))
        while at and amount < heap[above := (at - 1) // 2][0]:
            heap[at] = heap[above]
            at = above
        heap[at] = (amount, item)

    def take(self) -> T:
        """Remove and return the first item. Raises IndexError if the heap is empty."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last[1]
        taken, at, below = heap[0][1], 0, 1
        while below < len(heap):
            if below + 1 < len(heap) and heap[below + 1][0] < heap[below][0]:
                below += 1
            if last[0] <= heap[below][0]:
                break
            heap[at] = heap[below]
            at, below = below, 2 * below + 1
        heap[at] = last
        return taken


class AssignedMember(NamedTuple):
    """One member, as the assignor sees it: the tasks that it has, and the offsets that it has reported."""

    process_id: str
    before: StreamsTasks | Owned
    offsets: Sequence[TaskOffset] = ()


def sticky(
    members: Mapping[str, AssignedMember], subtopologies: Mapping[str, ConfiguredSubtopology], standbys: int
) -> Steps[dict[str, StreamsTasks]]:
    """Return the tasks of each member.

    Args:
        members: Members by id; at least one, unless the topology has no task.
        subtopologies: Subtopologies by id, in the order of ids.
        standbys: Number of standbys for each task with state.
    """
    work = _Work(members, subtopologies, standbys)
    yield from work.remember()
    yield from work.assign_active()
    if standbys:
        yield from work.assign_standby()
    return (yield from work.result())


class _Process:
    """Members that share a state directory.

    Attributes:
        counts: Member id -> number of its tasks so far.
        tasks: Tasks of all the members.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self._by_count: LeastFirst[str] | None = None

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.counts)

    def give(self, member_id: str, task: Task) -> int:
        """Give a task to a member, and return the member's number of tasks."""
        self._by_count = None
        return self._give(member_id, task)

    def give_least(self, task: Task) -> tuple[str, int]:
        """Give a task to the member with the fewest tasks. Return the member and its number of tasks."""
        if self._by_count is None:
            self._by_count = LeastFirst(zip(self.counts.values(), self.counts, strict=True))
        member_id = self._by_count.take()
        count = self._give(member_id, task)
        self._by_count.add(count, member_id)
        return member_id, count

    def _give(self, member_id: str, task: Task) -> int:
        self.tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Quota:
    """Maximum number of tasks per member. It changes when a member is full: the remaining tasks are divided among the other
    members."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.most = -(-tasks // max(members, 1))

    def note_given(self, count: int) -> None:
        """Note a member's number of tasks."""
        if count == self.most:
            self._members -= 1
            self._tasks -= count
            self.most = -(-self._tasks // max(self._members, 1))


class _Work:
    def __init__(
        self,
        members: Mapping[str, AssignedMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standbys: int,
    ) -> None:
        self._members = members
        self._sizes = {key: one.tasks for key, one in subtopologies.items()}
        self._stateful = {key: one.tasks for key, one in subtopologies.items() if one.changelogs}
        self._standbys = standbys
        active = sum(self._sizes.values())
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + standbys * sum(self._stateful.values()), len(members))
        self._processes: dict[str, _Process] = {}
        self._active_before: dict[Task, str] = {}
        self._candidates: dict[Task, list[Candidate]] = {}
        self._active: Given = defaultdict(partial(defaultdict, set))
        self._standby: Given = defaultdict(partial(defaultdict, set))

    def remember(self) -> Job:
        left = A_PIECE
        for member_id, member in self._members.items():
            self._processes.setdefault(member.process_id, _Process()).counts[member_id] = 0
            left -= 1
            offsets: dict[Task, int] = {}
            for one in member.offsets:
                if 0 <= one.partition < self._sizes.get(one.subtopology_id, 0):
                    offsets[one.subtopology_id, one.partition] = one.offset
                left -= 1
                if left <= 0:
                    left = A_PIECE
                    yield
            for key, partitions in member.before.active.items():
                self._active_before.update(dict.fromkeys(zip(repeat(key), partitions), member_id))
                left -= len(partitions)
                if left <= 0:
                    left = A_PIECE
                    yield
            for key, partitions in member.before.standby.items():
                for task in zip(repeat(key), partitions):
                    standby = Candidate(is_reporter=False, lag=-offsets.pop(task, 0), member_id=member_id)
                    self._candidates.setdefault(task, []).append(standby)
                    left -= 1
                    if left <= 0:
                        left = A_PIECE
                        yield
            for task, offset in offsets.items():
                reporter = Candidate(is_reporter=True, lag=-offset, member_id=member_id)
                self._candidates.setdefault(task, []).append(reporter)
                left -= 1
                if left <= 0:
                    left = A_PIECE
                    yield
        for candidates in self._candidates.values():
            if len(candidates) > 1:
                candidates.sort(key=itemgetter(0, 1))  # without member ids: candidates of one rank keep their order
            left -= len(candidates)
            if left <= 0:
                left = A_PIECE
                yield

    def assign_active(self) -> Job:
        left: set[Task] = set()
        for number, task in enumerate(_by_partition(self._sizes), 1):
            if number % A_PIECE == 0:
                yield
            if not self._keep_active(task, self._active_before.get(task)):
                left.add(task)
        in_piece = 0
        for task in _by_partition(self._sizes) if self._candidates else ():
            candidates = self._candidates.get(task, ())
            in_piece += 1 + len(candidates)
            if in_piece >= A_PIECE:
                in_piece = 0
                yield
            if task in left and self._keep_active(task, self._least_loaded(candidates, None)):
                left.discard(task)
        if not left:
            return
        by_load = self._by_load()
        for number, task in enumerate(_by_subtopology(self._sizes), 1):
            if number % A_PIECE == 0:
                yield
            if task in left:
                process = by_load.take()
                member_id, count = process.give_least(task)
                self._active[member_id][task[0]].add(task[1])
                self._active_quota.note_given(count)
                self._quota.note_given(count)
                by_load.add(process.load, process)

    def _keep_active(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of(member_id)
        if process.counts[member_id] >= self._active_quota.most:
            return False
        count = process.give(member_id, task)
        self._active[member_id][task[0]].add(task[1])
        self._active_quota.note_given(count)
        self._quota.note_given(count)
        return True

    def assign_standby(self) -> Job:
        wanting: dict[Task, int] = {}
        for task in _by_partition(self._stateful, is_reversed=True):
            yield
            for already in range(self._standbys):
                if not (
                    self._keep_standby(task, self._active_before.get(task))
                    or self._keep_standby(task, self._least_loaded(self._candidates.get(task, ()), task))
                ):
                    wanting[task] = self._standbys - already
                    break
        by_load = self._by_load()
        for task in _by_subtopology(self._stateful, is_reversed=True):
            yield
            for _ in range(wanting.get(task, 0)):
                if not self._add_standby(by_load, task):
                    break  # There are not enough processes for the standbys.

    def _keep_standby(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of(member_id)
        if task in process.tasks or process.counts[member_id] >= self._quota.most:
            return False
        self._quota.note_given(process.give(member_id, task))
        self._standby[member_id][task[0]].add(task[1])
        return True

    def _add_standby(self, by_load: LeastFirst[_Process], task: Task) -> bool:
        """Give a task to the first process that does not have it. The processes before it, at most as many as have the task,
        are put back."""
        passed = []
        while by_load and task in by_load.first.tasks:
            passed.append(by_load.take())
        is_found = bool(by_load)
        if is_found:
            process = by_load.take()
            member_id, count = process.give_least(task)
            self._standby[member_id][task[0]].add(task[1])
            self._quota.note_given(count)
            by_load.add(process.load, process)
        for one in reversed(passed):
            by_load.add(one.load, one)
        return is_found

    def _least_loaded(self, candidates: Iterable[Candidate], task: Task | None) -> str | None:
        """Return the first candidate, or a later one with fewer tasks in a process with fewer; None if there is none. Processes
        that already have `task` are left out."""
        found, load, count = None, inf, inf
        for candidate in candidates:
            process = self._process_of(candidate.member_id)
            if task is not None and task in process.tasks:
                continue
            its_count = process.counts[candidate.member_id]
            if found is None or (process.load < load and its_count < count):
                found, load, count = candidate.member_id, process.load, its_count
        return found

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _by_load(self) -> LeastFirst[_Process]:
        # Of processes with the same load, the last one comes first, as in one slot of the hash table that Apache Kafka uses.
        return LeastFirst([(process.load, process) for process in reversed(self._processes.values())])

    def result(self) -> Steps[dict[str, StreamsTasks]]:
        found, left, nothing = {}, A_PIECE, defaultdict[str, set[int]]()
        for member_id in self._members:
            active, standby = self._active.pop(member_id, nothing), self._standby.pop(member_id, nothing)
            found[member_id] = StreamsTasks(
                dict(zip(active, map(frozenset, active.values()), strict=True)),
                dict(zip(standby, map(frozenset, standby.values()), strict=True)),
            )
            left -= 1 + len(active) + len(standby)
            if left <= 0:
                left = A_PIECE
                yield
        return found


def _by_partition(sizes: dict[str, int], *, is_reversed: bool = False) -> Iterator[Task]:
    partitions = range(max(sizes.values(), default=0))
    ends = {size - 1 if is_reversed else size for size in sizes.values()}
    keys = [] if is_reversed else list(sizes)
    for partition in reversed(partitions) if is_reversed else partitions:
        if partition in ends:
            keys = [key for key in (reversed(sizes) if is_reversed else sizes) if partition < sizes[key]]
        for key in keys:
            yield key, partition


def _by_subtopology(sizes: dict[str, int], *, is_reversed: bool = False) -> Iterator[Task]:
    for key in reversed(sizes) if is_reversed else sizes:
        for partition in range(sizes[key] - 1, -1, -1) if is_reversed else range(sizes[key]):
            yield key, partition
