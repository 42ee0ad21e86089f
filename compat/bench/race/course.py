"""Shared parts of all rows of the race: the sides that take part, the duration, and the two ways to measure all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...support.brokers.process import BrokerProcess
from ...support.suite import Options, Suite
from ..table import KAFKA, OTTLA
from .figures import Figure

Brokers = dict[str, BrokerProcess]


@dataclass
class Course:
    """The shared settings of a race.

    `absent`: sides that cannot run here, and why. `rounds` and `quick` as the caller set them.
    """

    suite: Suite
    options: Options
    sides: tuple[str, ...]
    rounds: int
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def quick(self) -> bool:
        return self.options.quick

    @property
    def durable(self) -> tuple[str, ...]:
        """The sides that keep records on disk."""
        return tuple(side for side in self.sides if side in (KAFKA, OTTLA))

    def turns(self, sides: Iterable[str], rounds: int | None = None) -> Iterator[str]:
        """Yield each side once a round, every second round in the other order."""
        order = list(sides)
        for number in range(self.rounds if rounds is None else rounds):
            yield from order[:: 1 if number % 2 == 0 else -1]

    def in_turns(
        self,
        brokers: Brokers,
        figures: Sequence[Figure],
        turn: Callable[[BrokerProcess], object],
        rounds: int | None = None,
    ) -> None:
        """Measure the sides in turns. A side whose turn fails has no figures and no more turns."""
        able = dict(brokers)
        for side in self.turns(brokers, rounds):
            if side in able and not self.succeeds(able[side], figures, turn):
                del able[side]

    def taking_part(
        self, brokers: Brokers, figures: Sequence[Figure], attempt: Callable[[BrokerProcess], object]
    ) -> Brokers:
        """Return the brokers for which `attempt` succeeds: a short run, which also warms up.

        The figures of the others get the reason.
        """
        return {side: broker for side, broker in brokers.items() if self.succeeds(broker, figures, attempt)}

    def succeeds(
        self, broker: BrokerProcess, figures: Sequence[Figure], attempt: Callable[[BrokerProcess], object]
    ) -> bool:
        try:
            attempt(broker)
        except Exception as error:  # noqa: BLE001 - the report has the client's error
            kind = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
            self.cannot(broker.kind, figures, f"{kind}{error}")
            return False
        return True

    def cannot(self, side: str, figures: Sequence[Figure], why: str) -> None:
        """Note that a side cannot do this row. For Apache Kafka and Ottla that is a failure."""
        line = why.strip().splitlines()[0][:90]
        for figure in figures:
            figure.values.pop(side, None)
            figure.absent[side] = line
        if side in (KAFKA, OTTLA):
            self.suite.check(f"{side} takes part", False, why)
        else:
            self.suite.note(f"{side} does not take part: {line}")
