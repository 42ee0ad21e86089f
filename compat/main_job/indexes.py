"""Rebuilds every index of a stopped broker's partition with Ottla's own recovery and compares the bytes."""

import shutil
import tempfile
import time
from pathlib import Path

from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition, parse_partition_dir
from ottla.storage.logs.log_parts import LogPlace
from ottla.storage.logs.recovery import load_log
from ottla.storage.topics.config import LogConfig

INDEX_SUFFIXES = (".index", ".timeindex")


def differences_to_rebuilt(partition_dir: Path) -> list[str]:
    """Return names of index files whose bytes differ from a rebuild out of the `.log` files alone; empty is good."""
    topic_partition = parse_partition_dir(partition_dir.name)
    assert isinstance(topic_partition, TopicPartition)
    with tempfile.TemporaryDirectory(prefix="compat-rebuild-") as folder:
        rebuilt = Path(folder) / partition_dir.name
        rebuilt.mkdir()
        for path in partition_dir.iterdir():
            if path.suffix not in (*INDEX_SUFFIXES, ".txnindex", ".snapshot"):
                shutil.copy2(path, rebuilt / path.name)
        log = load_log(
            LogPlace(OsFiles(), str(rebuilt), topic_partition),
            LogConfig(),
            now_ms=int(time.time() * 1000),
        )
        log.close(int(time.time() * 1000))
        return [
            path.name
            for path in sorted(partition_dir.iterdir())
            if path.suffix in INDEX_SUFFIXES and path.read_bytes() != (rebuilt / path.name).read_bytes()
        ]
