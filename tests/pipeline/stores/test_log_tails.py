"""The kept part of a log's tail: its index entry."""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.stores.log_tails import Tail
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.config import LogConfig
from support.logs.batches import batch


def test_a_segment_whose_index_cannot_be_made_again_is_read_all_the_same(tmp_path: Path) -> None:
    """The segment's offsets decrease, which a rebuilt index refuses."""
    data = b"".join(bytes(batch(("k", "x" * 6_000), base_offset=offset)) for offset in (0, 9, 5, 3, 2))
    (tmp_path / paths.segment_file_name(0, paths.LOG)).write_bytes(data)
    (tmp_path / paths.segment_file_name(0, paths.INDEX)).write_bytes(b"\1" * 7)
    segment = LogSegment.open(OsFiles(), str(tmp_path), 0, LogConfig(), 0, "")
    tail = Tail(None, 0, last_offset=9, position=10, header=b"", producers=None, aborted=())
    tail.add_to_index(segment)
    assert segment.log_file.read_at(0, len(data)) == data
    segment.close()
