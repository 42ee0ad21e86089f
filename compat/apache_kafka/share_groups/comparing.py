"""One step sent to both brokers, and again to Apache Kafka if it lags behind its answers."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .asking import Answer, Side
from .sayings import Ranges
from .states import from_the_later, without_gaps
from .steps import Acknowledge, Beat, Fetch, Look, Offsets, Place, Settled, Step
from .world import COMPACTED

PATIENCE_S, PAUSE_S = 5.0, 0.05
HEAD, RECORDS = 4, 6
"""The position of the rows in the answer to a fetch, and of the records in a row."""
SILENT = ("NONE", None, "NONE", None, (0, 0), (), ())
START, LAG, UNKNOWN = 3, 5, -1
"""The positions of the start offset and the lag in a row of offsets, and their value if there is none."""


_TRIPPED = ("UNKNOWN_SERVER_ERROR", None, 0, ())
_NOT_IN_FLIGHT = "Batch record not found. The request batch offsets are not found in the cache."


class Difference(NamedTuple):
    step: Step
    theirs: Answer
    ours: Answer

    def words(self) -> str:
        return f"{self.theirs} became {self.ours}"


def compared(step: Step, ottla: Side, kafka: Side, *, has_ended: bool, gaps: Ranges) -> tuple[Answer, Answer, int]:
    """Return Apache Kafka's answer, Ottla's, and the number of repeated requests to Apache Kafka.

    Args:
        has_ended: Whether locks may have expired.
        gaps: Offsets that the compacted log lacks.
    """
    ours, theirs = ottla.ask(step), kafka.ask(step)
    if isinstance(step, Settled):
        return compared_states(step, ours, theirs, kafka, gaps)
    end_s = time.monotonic() + PATIENCE_S
    tries = 0
    while ours != theirs and time.monotonic() < end_s:
        if isinstance(step, Offsets) and past_gaps(theirs, ours, gaps) == ours:
            theirs = ours
            break
        if has_ended and isinstance(step, Offsets) and without_starts(ours) == without_starts(theirs):
            # Of locks that ran out together Apache Kafka writes one by one (../DIFFERENCES.md): the first may be over meanwhile.
            theirs = ours
            break
        if isinstance(step, Look | Offsets) or is_behind(step, theirs, ours) or is_not_begun(step, theirs, ours):
            # Work that continues after an answer shows here later; a repeated request changes nothing.
            time.sleep(PAUSE_S)
            theirs = kafka.ask(step)
        elif isinstance(step, Fetch) and got_nothing(step, theirs, ours):
            # The second answer may have parts that the first one did not.
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


def compared_states(
    step: Settled, ours: Answer, theirs: Answer, kafka: Side, gaps: Ranges
) -> tuple[Answer, Answer, int]:
    end_s = time.monotonic() + PATIENCE_S
    tries = 0
    while True:
        of_ours, of_theirs = (
            without_gaps(from_the_later(one[0], other[0]), COMPACTED, gaps)
            for one, other in ((ours, theirs), (theirs, ours))
        )
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
    """Return whether both sides still agree: Apache Kafka's session has advanced, and Ottla has only refused."""
    assert isinstance(step, Acknowledge | Fetch)
    if step.epoch is not None or len(step.says) > 1:
        return False
    if isinstance(step, Fetch) and (step.places or step.forget or any(row[RECORDS] for row in ours[HEAD].values())):
        return False
    kafka.sessions[step.group, step.member] += 1
    return True


def past_gaps(theirs: Answer, ours: Answer, gaps: Ranges) -> Answer:
    """Return the described offsets, with Ottla's row of the compacted topic if only offsets that its log lacks are between them:
    Apache Kafka does not write that these are archived (../DIFFERENCES.md)."""
    lacking = sum(last - first + 1 for first, last in gaps)
    *head, rows = theirs
    if len(rows) != len(ours[-1]):
        return theirs

    def as_ours(row: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        is_same = row[0] == COMPACTED and UNKNOWN not in (row[START], other[START])
        is_same &= row[:START] == other[:START] and row[LAG + 1 :] == other[LAG + 1 :]
        return other if is_same and 0 <= row[LAG] - other[LAG] <= lacking else row

    return *head, [as_ours(row, other) for row, other in zip(rows, ours[-1], strict=True)]


def without_starts(answer: Answer) -> Answer:
    """Return the described offsets without the start offsets of partitions that have a lag."""
    *head, rows = answer
    return *head, [(*row[:START], row[START] == UNKNOWN, *row[START + 1 :]) for row in rows]


def is_behind(step: Step, theirs: Answer, ours: Answer) -> bool:
    """Return whether both succeeded, and Apache Kafka's group is at an earlier epoch."""
    if not isinstance(step, Beat) or step.epoch is not None or step.off:
        return False
    return bool(ours[0] == theirs[0] == "NONE" and theirs[3] < ours[3])


def is_not_begun(step: Step, theirs: Answer, ours: Answer) -> bool:
    """Return whether Apache Kafka's answer has no partition, as states were not read in time, and Ottla's no records."""
    if not isinstance(step, Fetch) or step.epoch != 0 or theirs[:HEAD] != ours[:HEAD] or theirs[0] != "NONE":
        return False
    return not theirs[HEAD] and not any(row[RECORDS] for row in ours[HEAD].values())


def got_nothing(step: Fetch, theirs: Answer, ours: Answer) -> bool:
    """Return whether both succeeded, and Apache Kafka had no records of the partitions for which Ottla had other ones."""
    if step.epoch == -1 or theirs[:HEAD] != ours[:HEAD] or theirs[0] != "NONE":
        return False
    of_theirs: dict[Place, Answer] = theirs[HEAD]
    others = {place: row for place, row in ours[HEAD].items() if of_theirs.get(place, SILENT) != row}
    return any(row[RECORDS] for row in others.values()) and not any(
        of_theirs[place][RECORDS] for place in others if place in of_theirs
    )


def without_silent(theirs: Answer, ours: Answer) -> Answer:
    """Return Apache Kafka's answer without empty rows of partitions that Ottla's answer does not have.

    Such a row comes late: Apache Kafka's fetch before could not get the share partition, as another one had just used it.
    """
    rows = {place: row for place, row in theirs[HEAD].items() if place in ours[HEAD] or row != SILENT}
    return *theirs[:HEAD], rows


def merged(first: Answer, second: Answer) -> Answer:
    rows = dict(first[HEAD])
    for place, row in second[HEAD].items():
        before = rows.get(place)
        rows[place] = row if before is None else (*row[:2], *before[2:4], *row[4:])
    return *first[:HEAD], rows
