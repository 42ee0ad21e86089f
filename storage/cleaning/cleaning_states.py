"""Which operation has a partition: a clean pass, retention, or one that keeps both away. On the broker's own thread.

A partition without a state is free. The cleaner and retention leave one with a state alone.

    none          --picked for a pass or for deletion-->  in progress
    in progress   --done-->                               none
    in progress   --abort and pause-->                    aborting     the pass ends at its next checkpoint
    aborting      --done-->                               paused once  and the waiting callers are notified
    none          --abort and pause-->                    paused once
    paused n      --abort and pause-->                    paused n+1
    paused n      --resume-->                             paused n-1, or none after the last one

Anything else is a mistake of the caller (RuntimeError). Deletion of a partition, a policy that drops
`compact`, and the retention job on logs without it pause first and resume after.
Source: Apache Kafka's LogCleanerManager.
"""

from collections.abc import Callable, Iterable

from ..disk.paths import TopicPartition

NOT_HELD = "not held"


class _InProgress:
    __slots__ = ()


class _AbortingPass:
    __slots__ = ("on_paused",)

    def __init__(self, on_paused: Callable[[], None]) -> None:
        self.on_paused = on_paused


class _Paused:
    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = 1


_State = _InProgress | _AbortingPass | _Paused


class CleaningStates:
    """The state of every partition that has one."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, _State] = {}
        self.on_freed: Callable[[TopicPartition], None] = lambda _: None
        """Called for a partition that has become free."""

    def is_held(self, tp: TopicPartition) -> bool:
        """Return whether a pass, a deletion or a pause has this partition."""
        return tp in self._states

    def begin(self, tp: TopicPartition) -> None:
        """Begin a pass or a deletion of this free partition."""
        self._states[tp] = _InProgress()

    def leave(self, tp: TopicPartition) -> None:
        """End the pass or deletion, whatever its result. RuntimeError if there was none."""
        state = self._states.get(tp)
        if isinstance(state, _InProgress):
            del self._states[tp]
            self.on_freed(tp)
        elif isinstance(state, _AbortingPass):
            self._states[tp] = _Paused()
            state.on_paused()
        else:
            raise RuntimeError(f"{tp} is {_name(state)}, so its cleaning cannot end")  # noqa: TRY004 - a state, no type

    def is_aborting(self, tp: TopicPartition) -> bool:
        """Return whether the pass over this partition must stop; its checkpoints call this. Safe from any thread."""
        return isinstance(self._states.get(tp), _AbortingPass)

    def is_busy(self, tp: TopicPartition) -> bool:
        """Return whether a pass or a deletion is running, even if only to its next checkpoint."""
        return isinstance(self._states.get(tp), _InProgress | _AbortingPass)

    def state_name(self, tp: TopicPartition) -> str:
        """Return the state for people: none, in progress, aborting or paused."""
        return _name(self._states.get(tp))

    def abort_and_pause(self, tp: TopicPartition, on_paused: Callable[[], None]) -> bool:
        """Keep the cleaner away from a partition until `resume`.

        Args:
            on_paused: Called once the running pass has stopped; not called if there is none.

        Returns:
            True if the partition is paused now, False if `on_paused` will be called.

        Raises:
            RuntimeError: Another caller is waiting for the same.
        """
        state = self._states.get(tp)
        if state is None:
            self._states[tp] = _Paused()
        elif isinstance(state, _Paused):
            state.times += 1
        elif isinstance(state, _InProgress):
            self._states[tp] = _AbortingPass(on_paused)
            return False
        else:
            raise RuntimeError(f"{tp} is already being aborted")
        return True

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """End one pause of each partition. RuntimeError if one was not paused."""
        for tp in topic_partitions:
            state = self._states.get(tp)
            if not isinstance(state, _Paused):
                raise RuntimeError(f"{tp} is {_name(state)}: cannot be resumed")  # noqa: TRY004 - a state, no type
            state.times -= 1
            if state.times == 0:
                del self._states[tp]
                self.on_freed(tp)


def _name(state: _State | None) -> str:
    if isinstance(state, _Paused):
        return f"paused {state.times} times" if state.times > 1 else "paused"
    return NOT_HELD if state is None else "being aborted" if isinstance(state, _AbortingPass) else "in progress"
