"""Passes that fail and are repeated in the same process, which then loses power: at every file operation, in every way.

    recovery    pass . . x                leftovers of the pass are removed, if the disk allows that
                         |  pass . . .    the next one, with other groups
                         x  x  x x x x    power is lost before every operation from the failure on

An operation that fails has done nothing. All kinds count: those that change the disk and those that only read.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial

from ottla.pipeline.compaction.staging import group_directory
from ottla.protocol.errors import CorruptRecordError, KafkaError
from ottla.storage.disk.files import AbortedError, SyncError
from support.disk.crash_files import CrashFiles
from support.disk.crash_search import Counts, CrashSearch
from support.lives.compacted_life import TP, Broker, CompactedLife, History, Owed, check
from support.lives.crash_lives import COMPACTED, FIRST_MS, SECOND_MS, Steps, Story, clean, create, fill, overflow_wholly
from support.logs.make_log import delete_old_segments
from support.pipeline.install_lives import Staged, bring_group_in, staged


class _OverError(Exception):
    """End of a run: no second pass follows, and the rest does not matter."""


class EndedError(BaseException):
    """The error that ends a thread without being an Exception, as KeyboardInterrupt does."""


FAILURES: dict[str, Callable[[], BaseException]] = {
    "EIO": lambda: OSError(errno.EIO, "input/output error"),
    "ENOSPC": lambda: OSError(errno.ENOSPC, "no space left on device"),
    "MemoryError": MemoryError,
    "no Exception": EndedError,
}


@dataclass(frozen=True)
class Failure:
    """An operation that fails."""

    at: int
    """Number of the operation, from 0."""
    name: str
    """The kind of failure, from FAILURES."""
    is_lasting: bool
    """Whether all following operations fail as well, until the pass has given up."""


@dataclass(frozen=True)
class FailingStory:
    """One history: `first` fails, `between` runs undisturbed, then `second` runs."""

    before: Sequence[tuple[int, Steps]]
    """Steps that run first, each on a start of its own; all of them are durable."""
    first: Steps = clean
    second: Steps = clean
    between: Steps = lambda _: None
    just_before: Steps = lambda _: None
    """Steps in the same process, undisturbed."""
    only_second: bool = False
    """Whether power is lost in `second` only: the earlier log cannot be read."""
    segment_bytes: int = 900
    now_ms: int = SECOND_MS

    def search(
        self, *, ordered: bool = False, one_in: int = 1, shift: int = 0, thinned_to: int = 1
    ) -> tuple[int, int, Counts]:
        """Fail one in `one_in` operations in every way, and lose power wherever it can be lost from there on.

        Args:
            ordered, thinned_to: As in CrashSearch.
            shift: Which operations, if not all are tried.

        Returns:
            The number of failures, the number of different moments that they led to, and the figures of the losses.
        """
        files, history = self.prepare()
        files.lost_at_most = 2
        batches = tuple(history.batches)
        config = replace(COMPACTED, segment_bytes=self.segment_bytes)
        search: CrashSearch[Broker, Owed] = CrashSearch(
            recover=lambda disk: Broker(disk, config, self.now_ms),
            key=Broker.key,
            check=lambda broker, owed: check(broker, owed, history),
            ordered=ordered,
            losses=1,
            thinned_to=thinned_to,
        )
        known: set[Hashable] = set()
        count = 0
        for failure in self._failures(files, one_in, shift):
            history.batches[:] = batches  # every run appends the same ones
            failing = _FailingLife(self, failure, known)
            life = CompactedLife(config, self.now_ms, failing, history)
            count += 1
            with suppress(_OverError):
                search.run(partial(failing.live, life), files, life.owed)
        return count, len(known), search.counts

    def prepare(self) -> tuple[CrashFiles, History]:
        return Story(tuple(self.before), self.first).prepare()

    def _failures(self, files: CrashFiles, one_in: int, shift: int) -> Iterator[Failure | None]:
        """Yield the failures to be tried; first None, for a run in which only the initial damage fails."""
        yield None
        counting = _FailingLife(self, None, set())
        CompactedLife(replace(COMPACTED, segment_bytes=self.segment_bytes), self.now_ms, counting)(files.copy())
        number = shift
        for at in range(counting.seen):
            for name in FAILURES:
                for is_lasting in (False, True):
                    if number % one_in == 0:
                        yield Failure(at, name, is_lasting)
                    number += 1


@dataclass
class _FailingLife:
    """The steps of a history with one failure."""

    story: FailingStory
    failure: Failure | None
    known: set[Hashable]
    """Moments that other runs have reached. Their continuations need not be searched again."""
    seen: int = 0
    """Number of operations in `first`."""
    _has_failed: bool = field(default=False, init=False)
    _look: Callable[[], None] | None = field(default=None, init=False)
    """The search's callback, for the time from the failure on."""

    def live(self, life: CompactedLife, files: CrashFiles) -> None:
        self._look, files.before_step = files.before_step, None
        life(files)

    def __call__(self, life: CompactedLife) -> None:
        assert life.broker is not None
        files, look = life.broker.files, self._look
        self.story.just_before(life)

        def refuse(*_: object) -> None:
            failure = self.failure
            if failure is not None and (self.seen == failure.at or (self._has_failed and failure.is_lasting)):
                self._has_failed = True
                files.before_step = None if self.story.only_second else look
                self.seen += 1
                raise FAILURES[failure.name]()
            self.seen += 1

        files.refuse = files.refuse_reading = refuse
        try:
            self.story.first(life)
        except (OSError, KafkaError, MemoryError, EndedError, CorruptRecordError, AbortedError):
            pass
        finally:
            files.refuse = files.refuse_reading = None
        if life.log.failure is None:
            files.before_step = None
            life.broker.cleaning.retry(TP)
            self.story.between(life)
            moment = files.moment(), life.broker.key()
            if moment not in self.known:
                self.known.add(moment)
                files.before_step = look
                with suppress(SyncError):  # of the first, which no later one may ignore: the run ends there
                    self.story.second(life)
                return
        elif self.story.only_second:
            raise _OverError
        files.before_step = look


def several_groups(life: CompactedLife) -> None:
    """Write five segments of two keys, the last of which supersedes some of the first, and one that stays open."""
    create(life)
    for pair in ("ab", "cd", "ef", "gh"):
        life.append(*((key, "1") for key in pair), *((2 * key, "1") for key in pair), roll=True)
    life.append(("a", "2"), ("c", "2"), ("e", None), roll=True)
    life.append(("z", "1"))
    life.flush()


def damage(life: CompactedLife) -> None:
    """Damage the length of a record in the first, clean segment; append new values at the end."""
    life.reconfigure(segment_bytes=190)
    clean(life)
    assert len(life.log.segments) > 4, "several groups"
    files, path = life.log.files, life.log.segments.first.file_paths()[0]
    file = files.open(path)
    data = bytearray(file.read_at(0, file.size()))
    data[61] = 0x7F
    file.truncate(0)
    file.append(data)
    file.sync()
    life.append(("c", "3"), ("h", None), roll=True)
    life.append(("z", "2"))
    life.flush()


def delete_damaged_segment(life: CompactedLife) -> None:
    """Delete a segment that cannot be read: DeleteRecords past it, then the round's retention."""
    assert life.broker is not None
    following = life.log.segments.higher(life.log.segments.first.base_offset)
    assert following is not None
    life.log.advance_log_start(following.base_offset)
    delete_old_segments(life.log, life.now_ms, life.now_ms)
    life.broker.manager.checkpoint_log_starts()
    life.broker.remove_deleted_files()
    life.log.files.sync_dir(life.log.directory)


def overflow_on_disk(life: CompactedLife) -> None:
    """Write a segment that overflows and that no start has seen, so that the pass splits it."""
    overflow_wholly(life)
    assert life.broker is not None
    life.broker.files.sync_all()


def clean_at_last(life: CompactedLife) -> None:
    """Run a pass, and another one if the first only split segments."""
    with suppress(AbortedError):
        clean(life)
    clean(life)


def regroup(segment_bytes: int) -> Steps:
    """Return a step that changes the grouping from now on."""
    return lambda life: life.reconfigure(segment_bytes=segment_bytes)


@cache
def to_install() -> Staged:
    return staged(clean_stop=False)


def install(life: CompactedLife) -> None:
    """Install all groups of a plan, as a server does."""
    plan = to_install().plan
    for group in range(len(plan.groups)):
        bases = [plan.sources[number].base_offset for number in plan.groups[group]]
        bring_group_in(life.log, group_directory(plan, group), bases)


@dataclass(frozen=True)
class InstallStory(FailingStory):
    first: Steps = install

    def prepare(self) -> tuple[CrashFiles, History]:
        return to_install().copy(), History(to_install().history.batches)


FAILING: dict[str, FailingStory] = {
    "a damaged record, then DeleteRecords": FailingStory(
        ((FIRST_MS, several_groups), (FIRST_MS, damage)),
        between=delete_damaged_segment,
        only_second=True,
        segment_bytes=190,
    ),
    "smaller groups, then larger ones": FailingStory(
        ((FIRST_MS, several_groups),), between=regroup(330), segment_bytes=190
    ),
    "larger groups, then smaller ones": FailingStory(((FIRST_MS, fill),), between=regroup(1)),
    "a split, then a pass": FailingStory((), second=clean_at_last, just_before=overflow_on_disk),
    "an install, then a pass": InstallStory((), between=regroup(1)),
    "an install, then a pass with larger groups": InstallStory((), between=regroup(1 << 20)),
}
