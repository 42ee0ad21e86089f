"""The reported progress of a pass, at each of its checkpoints."""

from __future__ import annotations

from itertools import pairwise

from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.cleaning.progress import PassProgress, Phase
from support.logs.make_log import SECRET, append, make_log

ORDER = list(Phase)


def test_a_pass_reports_its_phases_groups_and_bytes_in_order() -> None:
    log = make_log(segment_bytes=130)
    for number in range(6):
        append(log, ("k", str(number)), ("once", "x" * 40), roll=True)
    chosen, progress = measure(log, 0, 2_000), PassProgress()
    size_bytes = chosen.cleanable_bytes
    seen: list[tuple[Phase, int, int, int, int]] = []

    def checkpoint(_: int) -> None:
        group = progress.group.number if progress.group else 0
        seen.append(
            (progress.phase, group, progress.map_bytes_read, min(progress.bytes_read, size_bytes), len(progress.done))
        )

    cleaner = Cleaner(dedupe_buffer_bytes=1 << 16, load_factor=1.0, io_buffer_bytes=1 << 19)
    _, stats = cleaner.clean(
        chosen.for_worker(),
        2_000,
        secret=SECRET,
        swap=lambda new, old: log.replace_segments(new, old, 2_000),
        checkpoint=checkpoint,
        progress=progress,
    )
    assert {phase for phase, *_ in seen} == {Phase.MAP, Phase.GROUPS}
    assert all(ORDER.index(one[0]) <= ORDER.index(next_[0]) and one[1:] <= next_[1:] for one, next_ in pairwise(seen))
    assert (progress.map_bytes, progress.map_bytes_read, progress.map_offset) == (size_bytes, size_bytes, 12)
    assert (progress.group_count, progress.bytes_to_read, progress.bytes_read) == (6, size_bytes, size_bytes)
    assert progress.bytes_written == stats.bytes_written
    assert [each.base_offset for each in progress.done] == [0, 2, 4, 6, 8, 10]
    assert [each.end_offset for each in progress.done] == [2, 4, 6, 8, 10, 12]
    assert sum(each.bytes_after for each in progress.done) == stats.bytes_written
    assert all(sum(each.source_bytes) == each.bytes_before for each in progress.done)
    assert [each.removed.superseded for each in progress.done] == [2, 2, 2, 2, 2, 0]
