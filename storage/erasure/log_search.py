"""Search of one partition's directory: each record of the keys, why it is still there, and when it goes.

    1  survey    headers of all segments: transactions, timestamps, and with them the range of the next pass
    2  search    the records of all log files, in the order of offsets; a record's fate follows from the next newer one
    3  compare   the directory's names and files again: what was searched must still be there

The third step fails if a pass, a swap or retention was at work; then the search begins again.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Mapping

from ..disk import paths
from ..disk.files import Files
from ..disk.paths import SegmentFile, TopicPartition
from ..steps import Steps
from ..topics.config import LogConfig
from ..topics.options import MAX_LONG
from .findings import Fate, Findings, Tally
from .key_matches import checked_batches, matches
from .log_survey import LogSurvey, SurveyedSegment
from .places import Contents, Why
from .record_fates import LogState, RecordFates

LOOKS_MAX = 10
"""Number of searches of one directory that a broker's work may disturb before the search gives up."""
TAIL_LOOKS_MAX = 3
"""Number of searches that may find bytes at the end of the active segment that are not a batch: an append may be in progress."""

NO_KEYS = frozenset(
    {
        paths.LEADER_EPOCH_CHECKPOINT,
        paths.PARTITION_METADATA,
        paths.RECORDS_FILE,
        paths.MOVED_FILE,
        paths.MOVING_FILE,
    }
)
"""Small files of a partition's directory. None of them has a field for a key or a value."""

_DELETED = Fate(
    Why.DELETED_FILE,
    "the broker has replaced or deleted this file, and removes it after file.delete.delay.ms by its clock; a broker that was"
    " stopped removes it at its next start",
)
BY_SUFFIX: Mapping[str, Fate] = {
    paths.DELETED: _DELETED,
    paths.CLEANED: Fate(
        Why.CLEANED_FILE,
        "a clean pass is writing this file, or was interrupted: the next pass or the next start of the broker removes it",
    ),
    paths.SWAP: Fate(
        Why.SWAP_FILE,
        "a swap is in progress, or was interrupted: the broker's next start makes this file a segment, or removes it",
    ),
}

_Identity = tuple[int, int]
"""Result of `Files.identity`, and the size in bytes; -1 for a file that may grow."""


class ChangedError(Exception):
    """The directory has changed during its search."""


class LogSearch:
    """Search of one directory. Only reads; any thread may run the steps."""

    def __init__(
        self,
        files: Files,
        directory: str,
        of: TopicPartition,
        keys: Collection[bytes],
        now_ms: int,
        *,
        state: LogState | None = None,
        fate: Fate | None = None,
        no_keys: frozenset[str] = frozenset(),
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            state: Of a log that a broker serves; not used with `fate`.
            fate: Fate of all records, in a directory that no broker serves.
            no_keys: More names of files that hold no keys.
            pause: Called before a search is repeated because files have changed.
        """
        self._files = files
        self.directory = directory
        self._of = of
        self._keys = keys if isinstance(keys, frozenset | set) else frozenset(keys)
        self._now_ms = now_ms
        self._state = state
        self._fate = fate
        self._no_keys = NO_KEYS | no_keys
        self._pause = pause

    def steps(self) -> Steps[Findings]:
        """Search the directory; yield after each batch.

        Raises:
            FileNotFoundError: The directory was deleted or renamed.
        """
        found, problem = Findings(self._keys), "a broker has changed the files during each search"
        for number in range(1, LOOKS_MAX + 1):
            try:
                return (yield from self._look(takes_tail=number >= TAIL_LOOKS_MAX))
            except (ChangedError, FileNotFoundError):
                if not self._files.is_dir(self.directory):
                    raise FileNotFoundError(errno.ENOENT, "deleted or renamed", self.directory) from None
                self._pause()
            except OSError as error:
                problem = f"cannot be read: {error.strerror or error}"
                break
        found.add_unread(self.directory, problem)
        return found

    def _look(self, *, takes_tail: bool) -> Steps[Findings]:
        """Search the directory once.

        Args:
            takes_tail: Bytes at the end of the active segment that are not a batch are a problem, not an append in progress.

        Raises:
            ChangedError, OSError: Files have changed.
        """
        found = Findings(self._keys)
        names = self._files.list(self.directory)
        logs, others = _logs_in(names)
        seen: dict[str, _Identity] = {}
        active = max((each.base_offset for each in logs.values() if not each.suffix), default=-1)
        if self._fate is None and active >= 0:
            yield from self._log(sorted(each.base_offset for each in logs.values() if not each.suffix), found, seen)
        for name, file in logs.items():
            if file.suffix or self._fate is not None:
                fate = self._fate or self._dated(BY_SUFFIX[file.suffix])
                yield from self._file(paths.join(self.directory, name), fate, found, seen)
        for name in others:
            self._other(name, found)
        self._compare(names, seen, active)
        if not takes_tail and paths.log_path(self.directory, active) in found.unread_paths:
            raise ChangedError
        return found

    def _dated(self, fate: Fate) -> Fate:
        if fate is not _DELETED or self._state is None:
            return fate
        return Fate(
            fate.why,
            fate.explanation,
            at_the_latest_ms=min(self._now_ms + self._state.config.file_delete_delay_ms, MAX_LONG),
        )

    def _file(self, path: str, fate: Fate, found: Findings, seen: dict[str, _Identity]) -> Steps[None]:
        """Search a file whose records all have the same fate."""
        # A pass may be writing the file.
        seen[path] = self._files.identity(path), -1 if path.endswith(paths.CLEANED) else self._files.size(path)
        file = self._files.open(path)
        try:
            tallies: dict[bytes, Tally] = {}
            batches = records = 0
            for batch, is_valid in checked_batches(file, path, lambda problem: found.add_unread(path, problem)):
                batches += 1
                records += batch.record_count
                if is_valid and not batch.is_control:
                    for match in matches(batch, self._keys, lambda problem: found.add_unread(path, problem)):
                        tallies.setdefault(match.key, Tally()).add(match)
                yield
            for key, tally in tallies.items():
                found.add(path, self._of, key, fate, tally)
            found.add_file(path, Contents.RECORDS, file.size(), batches, records)
        finally:
            file.close()

    def _log(self, bases: list[int], found: Findings, seen: dict[str, _Identity]) -> Steps[None]:
        """Search the segments of a log that a broker serves."""
        state = self._state or LogState(config=LogConfig())
        survey = LogSurvey(self._files, state.config, max(state.log_start_offset, bases[0]))
        for base_offset in bases:
            path = paths.log_path(self.directory, base_offset)
            # The active segment may grow.
            seen[path] = self._files.identity(path), -1 if base_offset == bases[-1] else self._files.size(path)
            yield from survey.add(path, base_offset)
        fates = RecordFates(survey, state, self._now_ms, self._of, found)
        for segment in survey.surveyed:
            yield from self._segment(segment, fates, found)
        fates.finish()

    def _segment(self, segment: SurveyedSegment, fates: RecordFates, found: Findings) -> Steps[None]:
        path = segment.path
        file = self._files.open(path)
        try:
            batches = records = 0
            for batch, is_valid in checked_batches(
                file, path, lambda problem: found.add_unread(path, problem), segment.file_bytes
            ):
                batches += 1
                records += batch.record_count
                if is_valid and not batch.is_control:
                    fates.take(
                        path, batch, list(matches(batch, self._keys, lambda problem: found.add_unread(path, problem)))
                    )
                yield
            found.add_file(path, Contents.RECORDS, segment.file_bytes, batches, records)
        finally:
            file.close()

    def _other(self, name: str, found: Findings) -> None:
        """Note a file that is not a log."""
        path = paths.join(self.directory, name)
        final = name.removesuffix(paths.TEMPORARY)
        segment = paths.parse_segment_name(final)
        if (segment is not None and segment.kind != paths.LOG) or final in self._no_keys:
            if self._files.exists(path):
                found.add_file(path, Contents.NO_KEYS, self._files.size(path))
        elif self._files.is_dir(path):
            found.add_unread(path, "unknown directory in a partition's directory: not searched")
        else:
            found.add_unread(path, "unknown file in a partition's directory: not searched")

    def _compare(self, names: Collection[str], seen: Mapping[str, _Identity], active: int) -> None:
        """Check that the files that were searched are still there, and that no other than new segments has been added.

        Raises:
            ChangedError, FileNotFoundError: They are not.
        """
        for path, (identity, size_bytes) in seen.items():
            if self._files.identity(path) != identity or size_bytes not in (-1, self._files.size(path)):
                raise ChangedError
        before = frozenset(names)
        for name, file in _logs_in(self._files.list(self.directory))[0].items():
            if name not in before and (file.suffix or file.base_offset < active):
                raise ChangedError


def _logs_in(names: Collection[str]) -> tuple[dict[str, SegmentFile], list[str]]:
    """Return the log files among these names, and the other names."""
    logs = {
        name: file for name in names if (file := paths.parse_segment_name(name)) is not None and file.kind == paths.LOG
    }
    return logs, [name for name in names if name not in logs]
