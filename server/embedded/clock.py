"""The clock of an embedded broker, which its user moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.clock import datetime_of, duration_ms, moment_ms
from .running import Running

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from ..control.clock import ClockMoved, ClockReading


class Timed(Running):
    """What `ottla.Broker` has to do with time."""

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock: `broker.clock.advance(days=8)`."""
        return BrokerClock(self)

    def advance_clock(self, by_ms: int) -> None:
        """Short for `clock.advance(milliseconds=by_ms)`."""
        self.clock.advance(milliseconds=by_ms)


class BrokerClock:
    """The broker's time, by which everything in it goes: retention, lags, delete horizons, sessions, transactions.

    Each method raises `ControlError` where it is refused, and the clock is where it was.
    """

    def __init__(self, broker: Timed) -> None:
        self._broker = broker

    def now(self) -> datetime:
        """The wall time, in UTC."""
        return datetime_of(self.now_ms())

    def now_ms(self) -> int:
        """The wall time, in milliseconds since 1970, as timestamps of records are."""
        return self._broker.inner.clock.now_ms()

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._broker.inner.clock.is_frozen

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> ClockMoved:
        """Let so much time pass, all that is given together.

        Active segments that have been open for `segment.ms` of this clock roll. What has become due is done when this returns:
        retention, a round of the cleaner, time-outs; `is_settled` of the answer is False if it takes longer than five seconds.

        Raises:
            ControlError: Less than nothing, or beyond the year 9999.
            TypeError: No durations.
        """
        from ..control.clock import advance
        from ..runtime.errors import ControlError, Kind

        try:
            by_ms = duration_ms(by, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        except (OverflowError, ValueError) as error:  # not a number, or more than a timedelta can tell
            raise ControlError(Kind.INVALID, f"advance: expected a time until the year 9999: {error}") from None
        return self._broker._ask(advance, by_ms)

    def set(self, moment: datetime | int) -> ClockMoved:
        """Set the wall time: ahead as `advance` does; back, the wall time alone, and nothing is due later for it.

        Args:
            moment: With a time zone; or milliseconds since 1970.
        """
        from ..control.clock import set_to

        return self._broker._ask(set_to, moment_ms(moment))

    def freeze(self) -> ClockReading:
        """Let it stand still: nothing is due any more, until it is moved or goes on."""
        from ..control.clock import freeze

        return self._broker._call(freeze, self._broker.inner)

    def unfreeze(self) -> ClockReading:
        """Let it go on from where it stands."""
        from ..control.clock import unfreeze

        return self._broker._call(unfreeze, self._broker.inner)

    def __repr__(self) -> str:
        if self._broker.state != "serving":
            return f"<clock of a broker that is {self._broker.state}>"
        return f"<clock at {self.now().isoformat(timespec='milliseconds')}{', frozen' * self.is_frozen}>"
