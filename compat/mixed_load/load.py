"""Shared code of all loads: a thread that takes its turn at intervals, and a list of errors."""

import random
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

AFTER_AN_ERROR_S = 1.0
RESTART_S = 30.0
"""The time after a restart's start in which a client may still report errors: librdkafka's requests time out, groups rejoin."""


@dataclass(frozen=True, slots=True)
class Complaint:
    at_s: float
    load: str
    text: str


@dataclass
class Scene:
    """State that the loads share."""

    bootstrap: str
    admin: str | None
    """HOST:PORT of the control listener, if there is one."""
    began_s: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    complaints: list[Complaint] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """The start of each restart, in seconds since the start of the load."""
    away_ns: list[tuple[int, int]] = field(default_factory=list)
    """The start and end of the broker's absence for each restart, by the machine's monotonic clock."""

    def now_s(self) -> float:
        return time.monotonic() - self.began_s

    def complain(self, load: str, text: str) -> None:
        with self.lock:
            self.complaints.append(Complaint(self.now_s(), load, text))

    def restarting(self) -> None:
        with self.lock:
            self.restarts.append(self.now_s())

    def unexcused(self) -> list[Complaint]:
        """Return the complaints that no restart explains."""
        return [each for each in self.complaints if not excused(each.at_s, self.restarts)]


def excused(at_s: float, restarts: list[float]) -> bool:
    return any(0 <= at_s - began_s <= RESTART_S for began_s in restarts)


class Load(threading.Thread):
    """A thread that calls `turn` every `every_s`, until its end is set. An exception is a complaint.

    `again` then recreates the clients, and is retried if it fails.

    Attributes:
        begun: The number of turns that have ended; names that are used once come from it.
        turns: The number of turns without a complaint.
    """

    every_s = 1.0

    def __init__(self, scene: Scene, name: str | None = None) -> None:
        super().__init__(name=name or type(self).__name__, daemon=True)
        self.scene, self.begun, self.turns, self.end = scene, 0, 0, threading.Event()
        self.chance = random.Random(self.name)

    def run(self) -> None:
        due_s = time.monotonic() + self.chance.uniform(0, self.every_s)
        while not self.end.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + self.every_s, time.monotonic())
            if not self.take():
                # Until it has: what a turn has left would stay otherwise, from each restart some more.
                while not self.end.wait(AFTER_AN_ERROR_S) and not self.try_to(self.again):
                    pass
        self.try_to(self.close)

    def take(self) -> bool:
        """Take one turn; return whether it was taken to its end."""
        taken = self.try_to(self.turn)
        self.begun += 1
        self.turns += taken
        return taken

    def try_to(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever a client raises is reported
            self.tell(error)
            return False
        return True

    def tell(self, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
        where = f" at {place.filename.rpartition('/')[2]}:{place.lineno}" if place else ""
        self.scene.complain(self.name, f"{type(error).__name__}: {str(error)[:300]}{where}")

    def turn(self) -> None:
        raise NotImplementedError

    def again(self) -> None:
        """Recover after a failed turn."""

    def close(self) -> None:
        """Close the clients at the end."""
