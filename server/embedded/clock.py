"""The clock of an embedded broker, which its user moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.clock import datetime_of, duration_ms, moment_ms
from .running import Running

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from ..control.clock import ClockMoved, ClockReading


class Timed(Running):
    """The clock of `ottla.Broker`."""

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock: `broker.clock.advance(days=8)`."""
        return BrokerClock(self)

    def advance_clock(self, by_ms: int) -> None:
        """Short for `clock.advance(milliseconds=by_ms)`."""
        self.clock.advance(milliseconds=by_ms)


class BrokerClock:
    """The broker's clock, which controls retention, compaction lags, delete horizons, sessions and transactions.

    A method that is refused raises `ControlError` and leaves the clock unchanged.
    """

    def __init__(self, broker: Timed) -> None:
        self._broker = broker

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        return datetime_of(self.now_ms())

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, like record timestamps."""
        return self._broker.inner.clock.now_ms()

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is frozen."""
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
        """Move the clock forward by the sum of all arguments.

        Active segments that have been open for `segment.ms` by this clock roll. Work that became due (retention, a round of the
        cleaner, timeouts) is complete when this returns; `is_settled` of the result is False if it takes longer than five seconds.

        Raises:
            ControlError: The sum is negative, or the new time is after the year 9999.
            TypeError: An argument is not a duration.
        """
        from ..control.clock import advance
        from ..runtime.errors import ControlError, Kind

        try:
            by_ms = duration_ms(by, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        except (OverflowError, ValueError) as error:  # not a number, or more than a timedelta can tell
            raise ControlError(
                Kind.INVALID, f"advance: expected a duration that ends before the year 10000: {error}"
            ) from None
        return self._broker._ask(advance, by_ms)

    def set(self, moment: datetime | int) -> ClockMoved:
        """Set the wall time. Forward works like `advance`; backward changes the wall time only and does not delay timers.

        Args:
            moment: A datetime with a time zone, or milliseconds since 1970.
        """
        from ..control.clock import set_to

        return self._broker._ask(set_to, moment_ms(moment))

    def freeze(self) -> ClockReading:
        """Stop the clock: no timer fires until the clock is moved or unfrozen."""
        from ..control.clock import freeze

        return self._broker._call(freeze, self._broker.inner)

    def unfreeze(self) -> ClockReading:
        """Let the clock run again, from its current time."""
        from ..control.clock import unfreeze

        return self._broker._call(unfreeze, self._broker.inner)

    def __repr__(self) -> str:
        if self._broker.state != "serving":
            return f"<clock of a broker that is {self._broker.state}>"
        return f"<clock at {self.now().isoformat(timespec='milliseconds')}{', frozen' * self.is_frozen}>"
