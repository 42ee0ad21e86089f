"""One step asked of both brokers. Where Apache Kafka has not done yet what it said, it is asked again."""

from __future__ import annotations

import time
from typing import NamedTuple

from .asking import Answer, Side
from .states import from_the_later
from .steps import Acknowledge, Beat, Fetch, Look, Offsets, Place, Settled, Step

PATIENCE_S, PAUSE_S = 5.0, 0.05
HEAD, RECORDS = 4, 6
"""Of the answer to a fetch, what comes before its rows; of a row, where its records are."""
SILENT = ("NONE", None, "NONE", None, (0, 0), (), ())
START, UNKNOWN = 3, -1
"""Where the start offset is in a row of offsets, and what it is where there is none."""


_TRIPPED = ("UNKNOWN_SERVER_ERROR", None, 0, ())
_NOT_IN_FLIGHT = "Batch record not found. The request batch offsets are not found in the cache."


class Difference(NamedTuple):
    step: Step
    theirs: Answer
    ours: Answer

    def words(self) -> str:
        return f"{self.theirs} became {self.ours}"


def compared(step: Step, ottla: Side, kafka: Side, *, has_ended: bool) -> tuple[Answer, Answer, int]:
    """Apache Kafka's answer, Ottla's, and how often Apache Kafka was asked again.

    Args:
        has_ended: Whether locks may have run out.
    """
    ours, theirs = ottla.ask(step), kafka.ask(step)
    if isinstance(step, Settled):
        return compared_states(step, ours, theirs, kafka)
    end_s = time.monotonic() + PATIENCE_S
    tries = 0
    while ours != theirs and time.monotonic() < end_s:
        if has_ended and isinstance(step, Offsets) and without_starts(ours) == without_starts(theirs):
            # Of locks that ran out together Apache Kafka writes one by one (../DIFFERENCES.md): the first may be over meanwhile.
            theirs = ours
            break
        if isinstance(step, Look | Offsets) or is_behind(step, theirs, ours) or is_not_begun(step, theirs, ours):
            # What goes on behind an answer shows here later; to ask again changes nothing.
            time.sleep(PAUSE_S)
            theirs = kafka.ask(step)
        elif isinstance(step, Fetch) and got_nothing(step, theirs, ours):
            # Something of it, which the first answer did not tell, may be in the second.
            time.sleep(PAUSE_S)
            more = step._replace(epoch=None, off=0, places=(), says=(), forget=())
            theirs = merged(theirs, kafka.ask(more))
            ottla.ask(more._replace(max_records=0))
        else:
            break
        tries += 1
    if isinstance(step, Fetch) and step.epoch is None and theirs[0] == ours[0] == "NONE":
        theirs = without_silent(theirs, ours)
    return theirs, ours, tries


def compared_states(step: Settled, ours: Answer, theirs: Answer, kafka: Side) -> tuple[Answer, Answer, int]:
    end_s = time.monotonic() + PATIENCE_S
    tries = 0
    while True:
        of_ours, of_theirs = from_the_later(ours[0], theirs[0]), from_the_later(theirs[0], ours[0])
        if of_ours == of_theirs or time.monotonic() >= end_s:
            return (of_theirs,), (of_ours,), tries
        time.sleep(PAUSE_S)
        theirs = kafka.ask(step)
        tries += 1


def trips(step: Step, ours: Answer, theirs: Answer) -> bool:
    """Whether Apache Kafka failed at an acknowledgement of records before the start offset while nothing is in flight from there on,
    which costs it the whole request (../DIFFERENCES.md)."""
    if not isinstance(step, Acknowledge | Fetch) or theirs[:HEAD] != _TRIPPED or ours[0] != "NONE":
        return False
    return any(_NOT_IN_FLIGHT in row for row in ours[HEAD].values())


def goes_on(step: Step, ours: Answer, kafka: Side) -> bool:
    """Whether both are still alike behind that: Apache Kafka's session has gone on, and Ottla did nothing but refuse."""
    assert isinstance(step, Acknowledge | Fetch)
    if step.epoch is not None or len(step.says) > 1:
        return False
    if isinstance(step, Fetch) and (step.places or step.forget or any(row[RECORDS] for row in ours[HEAD].values())):
        return False
    kafka.sessions[step.group, step.member] += 1
    return True


def without_starts(answer: Answer) -> Answer:
    """Of offsets that are described, all but the offsets of partitions that have a lag."""
    *head, rows = answer
    return *head, [(*row[:START], row[START] == UNKNOWN, *row[START + 1 :]) for row in rows]


def is_behind(step: Step, theirs: Answer, ours: Answer) -> bool:
    """Whether all is well, and Apache Kafka's group has not come as far."""
    if not isinstance(step, Beat) or step.epoch is not None or step.off:
        return False
    return bool(ours[0] == theirs[0] == "NONE" and theirs[3] < ours[3])


def is_not_begun(step: Step, theirs: Answer, ours: Answer) -> bool:
    """Whether Apache Kafka's answer tells of no partition, since their states were not read in time, and Ottla's that there is nothing."""
    if not isinstance(step, Fetch) or step.epoch != 0 or theirs[:HEAD] != ours[:HEAD] or theirs[0] != "NONE":
        return False
    return not theirs[HEAD] and not any(row[RECORDS] for row in ours[HEAD].values())


def got_nothing(step: Fetch, theirs: Answer, ours: Answer) -> bool:
    """Whether all was well, and Apache Kafka had no records of those partitions of which Ottla had others."""
    if step.epoch == -1 or theirs[:HEAD] != ours[:HEAD] or theirs[0] != "NONE":
        return False
    of_theirs: dict[Place, Answer] = theirs[HEAD]
    others = {place: row for place, row in ours[HEAD].items() if of_theirs.get(place, SILENT) != row}
    return any(row[RECORDS] for row in others.values()) and not any(
        of_theirs[place][RECORDS] for place in others if place in of_theirs
    )


def without_silent(theirs: Answer, ours: Answer) -> Answer:
    """Without rows that tell nothing of partitions that Ottla says nothing of: one that is due comes later where Apache Kafka's fetch before
    did not get at the share partition, as another one had just been there."""
    rows = {place: row for place, row in theirs[HEAD].items() if place in ours[HEAD] or row != SILENT}
    return *theirs[:HEAD], rows


def merged(first: Answer, second: Answer) -> Answer:
    rows = dict(first[HEAD])
    for place, row in second[HEAD].items():
        before = rows.get(place)
        rows[place] = row if before is None else (*row[:2], *before[2:4], *row[4:])
    return *first[:HEAD], rows
