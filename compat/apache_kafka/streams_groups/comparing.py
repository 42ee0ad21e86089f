"""One step sent to both brokers, and the allowed differences."""

from __future__ import annotations

import time
from typing import NamedTuple

from .answers import Answer, HeartbeatResult, Roles, without_counts
from .asking import NO_TASKS, Side
from .steps import Beat, Configure, Look, Read, Step

PATIENCE_S, PAUSE_S = 3.0, 0.05
FAILED = "UNKNOWN_SERVER_ERROR"


class Difference(NamedTuple):
    step: Step
    theirs: Answer
    ours: Answer

    def words(self) -> str:
        if isinstance(self.ours, HeartbeatResult) and isinstance(self.theirs, HeartbeatResult):
            parts = [
                f"{name}: {theirs} became {ours}"
                for name, theirs, ours in zip(HeartbeatResult._fields, self.theirs, self.ours, strict=True)
                if theirs != ours
            ]
            return "; ".join(parts)
        return f"{self.theirs} became {self.ours}"


def compared(step: Step, ottla: Side, kafka: Side, *, is_new: bool) -> tuple[Answer, Answer, int]:
    """Return Apache Kafka's answer, Ottla's, and the number of repeated requests to Apache Kafka.

    Of a new group Apache Kafka does not show what the topology makes of the topics (../DIFFERENCES.md).
    Apache Kafka may not have finished work that follows its answers yet (deleted offsets); to look changes nothing.
    """
    given = ottla.given.get(step.member, NO_TASKS) if isinstance(step, Beat) else None
    ours, theirs = ottla.ask(step), kafka.ask(step)
    if isinstance(ours, HeartbeatResult) and isinstance(theirs, HeartbeatResult):
        return theirs, _retold(ours, theirs, given), 0
    if isinstance(step, Configure):
        return theirs, _in_short(ours, theirs), 0
    if isinstance(step, Look) and is_new:
        return without_counts(theirs), without_counts(ours), 0
    tries = 0
    end_s = time.monotonic() + PATIENCE_S
    while ours != theirs and isinstance(step, Look | Read) and time.monotonic() < end_s:
        time.sleep(PAUSE_S)
        ours, theirs = ottla.ask(step), kafka.ask(step)
        tries += 1
    return theirs, ours, tries


def _retold(ours: HeartbeatResult, theirs: HeartbeatResult, given: Roles | None) -> HeartbeatResult:
    """Our answer as it would be if we did not tell a member the tasks again that it was given, as it says that it has others. We mean
    to (../DIFFERENCES.md): at Apache Kafka a member whose answer got lost works at less for ever."""
    if theirs.code == ours.code == FAILED:
        # Only Ottla's message has the reason.
        return ours._replace(message=theirs.message)
    if theirs.active is None and ours.roles == given:
        return ours._replace(active=None, standby=None, warmup=None)
    return ours


def _in_short(ours: Answer, theirs: Answer) -> Answer:
    """Return Apache Kafka's answer if Ottla's message only adds the refused value to it."""
    is_longer = ours[0] == theirs[0] and (ours[1] or "").startswith(theirs[1] or "")
    return theirs if is_longer else ours


def trips(step: Step, ours: Answer, theirs: Answer) -> bool:
    """Whether Apache Kafka failed to name the partitions of a member with an endpoint, as topics are missing, which costs it the whole
    request (../DIFFERENCES.md). The two are not alike any more then."""
    if not (isinstance(step, Beat) and isinstance(ours, HeartbeatResult) and isinstance(theirs, HeartbeatResult)):
        return False
    return theirs.code == FAILED and ours.is_well and bool(ours.endpoints)
