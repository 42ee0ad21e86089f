"""The deliveries of a share group's records: to which member, when, how acknowledged, and whether that is consistent."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

from .suite import Suite

Place = tuple[int, int]
"""Partition and offset."""
RECEIVED, ACCEPTED, REJECTED, RELEASED = "R", "A", "J", "X"
"""Kinds of events. The last three are acknowledgements that the broker confirmed."""
LOST, FAILED = "L", "F"
"""The acknowledgement was refused; it failed, and the broker may have accepted it."""
FINAL = (ACCEPTED, REJECTED)
SHOWN = 3


class Event(NamedTuple):
    """An event of a record: a delivery or an acknowledgement."""

    nanoseconds: int
    """The time by the machine's monotonic clock."""
    kind: str
    member: str
    """A name that no other member has, before or after it."""
    more: str
    """The number of deliveries, or the reason of a refusal."""
    asked_ns: int | None = None
    """For a delivery, the time of the request, if known."""

    @property
    def since_ns(self) -> int:
        """Since when it may have been the member's."""
        return self.nanoseconds if self.asked_ns is None else self.asked_ns


@dataclass
class Deliveries:
    """All events of one group and topic.

    Args:
        lock_ms: How long a record stays locked by its receiver.
        count_limit: The number of deliveries after which the broker archives a record.
    """

    lock_ms: int
    count_limit: int
    events: defaultdict[Place, list[Event]] = field(default_factory=lambda: defaultdict(list))
    ended_ns: dict[str, int] = field(default_factory=dict)
    """Member -> the time after which it may have ended, if it has not reported that."""
    is_released: Callable[[Place, Event], bool] = lambda place, delivery: False
    """Whether the member releases the record after this delivery."""
    away_ns: list[tuple[int, int]] = field(default_factory=list)
    """The times between which the broker may have been away."""

    def judge(self, suite: Suite, ends: Mapping[int, int]) -> None:
        """Check every record up to these offsets (exclusive) by partition.

        Each was accepted or rejected by a member, none was delivered again after that, and none twice without a reason.
        """
        events = {place: sorted(found) for place, found in self.events.items()}
        places = [(partition, offset) for partition, end in ends.items() for offset in range(end)]
        suite.equal("records that were never received", [], [each for each in places if each not in events][:5])
        ended = {place for place, found in events.items() if any(each.kind in FINAL for each in found)}
        unknown = [place for place in places if place not in ended]
        lost = [place for place in unknown if not self.may_be_ended(events.get(place, []))]
        suite.equal(
            "records that no member can have accepted", [], [(place, events.get(place)) for place in lost][:SHOWN]
        )
        again = [(place, found) for place, found in events.items() if self.came_after_its_end(found)]
        self._note(suite, again)
        suite.equal("records that came again after they were accepted", [], again[:SHOWN])
        causes: Counter[str] = Counter()
        unexplained: list[tuple[Place, list[Event]]] = []
        for place, found in events.items():
            for one, following in pairwise(each for each in found if each.kind == RECEIVED):
                cause = self.cause(place, found, one, following)
                causes[cause or "none"] += 1
                if cause is None:
                    unexplained.append((place, found))
        self._note(suite, unexplained)
        suite.equal("records that came twice although no member lost its lock", [], unexplained[:SHOWN])
        kinds = Counter(each.kind for found in events.values() for each in found)
        refused = Counter(each.more for found in events.values() for each in found if each.kind in (LOST, FAILED))
        suite.note(
            f"{kinds[RECEIVED]} deliveries of {len(places)} records; came again because of: {dict(causes) or 'nothing'};"
            f" rejected: {kinds[REJECTED]}; acknowledgements refused: {dict(refused) or 'none'};"
            f" accepted by who was gone before it could say so: {len(unknown)}"
        )

    def _note(self, suite: Suite, places: Iterable[tuple[Place, list[Event]]]) -> None:
        """Print all events of the first places."""
        for place, found in islice(places, SHOWN):
            suite.note(
                f"all of {place}: {'; '.join(map(str, found))}; the broker was away: {self.away_ns}; ended: {self.ended_ns}"
            )

    def may_be_ended(self, found: Iterable[Event]) -> bool:
        """Return whether the last receiver may have acknowledged the record: it ended before its report, or lost its answer."""
        received = [each for each in found if each.kind == RECEIVED]
        if not received or int(received[-1].more) >= self.count_limit:
            return False
        last = received[-1]
        told = [each for each in found if each.member == last.member and each.nanoseconds > last.nanoseconds]
        return (not told and last.member in self.ended_ns) or any(each.kind == FAILED for each in told)

    def cause(self, place: Place, found: list[Event], one: Event, following: Event) -> str | None:
        """Return the reason of a record's second delivery."""
        # The answer to a release may arrive when another member already has the record.
        told = [each for each in found if each.member == one.member and each.nanoseconds > one.nanoseconds]
        told = told[: next((at for at, each in enumerate(told) if each.kind == RECEIVED), len(told))]
        if any(each.kind == RELEASED for each in told):
            return "released"
        if not told and one.member in self.ended_ns and self.is_released(place, one):
            return "released by a member that ended before its report"
        if any(begin <= following.nanoseconds and one.nanoseconds <= end for begin, end in self.away_ns):
            return "broker killed"
        if self.ended_ns.get(one.member, following.nanoseconds) < following.nanoseconds:
            return "member killed"
        if any(each.kind in (LOST, FAILED) for each in told):
            return "acknowledgement refused"
        if following.nanoseconds - one.since_ns >= self.lock_ms * 1_000_000:
            return "lock timed out"
        return None

    def came_after_its_end(self, found: list[Event]) -> bool:
        """Return whether a record was received again after it was accepted or rejected."""
        end = next((each for each in found if each.kind in FINAL), None)
        if end is None:
            return False
        again = [each for each in found if each.kind == RECEIVED and each.since_ns > end.nanoseconds]
        return any(not self.may_be_fetched_before(end, each, found) for each in again)

    def may_be_fetched_before(self, end: Event, again: Event, found: list[Event]) -> bool:
        """Return whether a member may have fetched the second copy of a record before the broker accepted the first.

        A member that has records of a broker which is killed fetches from the next one before it acknowledges: so it has them a
        second time, and that broker takes its acknowledgement. The Java client keeps either copy for a later poll.
        """
        lock_ns = self.lock_ms * 1_000_000
        before = [each for each in found if each.kind == RECEIVED and each.nanoseconds < end.nanoseconds]
        first_ns = before[-1].nanoseconds if before else end.nanoseconds
        return (
            again.asked_ns is None
            and again.member == end.member
            and again.nanoseconds - end.nanoseconds < lock_ns
            and any(first_ns - lock_ns <= begin <= end.nanoseconds for begin, _ in self.away_ns)
        )
