"""Which plan a command works on: the pending one that lies beside the data directory, or a new one.

A plan is pending until it is wholly installed; then it is kept for `verify`, with the segments that it has replaced, until
it is forgotten.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from ...protocol.errors import KafkaError
from ...storage.disk import paths
from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import TopicPartition
from ...storage.filter.offset_map import SECRET_BYTES
from ..compaction.plan import CONFIGS, KEY_HASH, CompactionPlan, make_plan
from ..compaction.staging import check_sources, pending_plans, save_plan
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from ..install.install import roll
from ..install.install_steps import (
    discard,
    is_begun,
    is_overtaken,
    is_plan_installed,
    is_stale,
    pending_groups,
)
from ..objects.addresses import FsOptions, is_address
from ..stores.reading_files import ReadingFiles
from ..stores.store import Store
from ..stores.stored_log import open_log
from ..stores.stores import Stores, opened_store
from .engine import Engine
from .progress import Say


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all commands are told, and which logs that means; `jobs.job` makes it."""

    data_dir: str
    """Or several, with commas between them."""
    topic: str | None
    """Or several, with commas between them; None is all."""
    partition: int | None
    configs: Mapping[str, str]
    engine: Engine
    say: Say
    """Takes a line of progress."""
    fs: FsOptions
    """Of stores, where what is read has an address."""
    admin: str | None
    """HOST:PORT of the admin listener of the server that runs over the directory; None if it is stopped."""
    at_once: int
    """So many partitions are worked on at a time."""
    includes_active: bool = False
    """Whether the active segment is rolled first; for a directory in which no server works."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    secret: Callable[[], bytes] = lambda: secrets.token_bytes(SECRET_BYTES)
    installing: AbstractContextManager[object] = field(default_factory=threading.Lock)
    """An install holds the lock of the data directory, so there is one at a time."""

    def files(self) -> ReadingFiles:
        return ReadingFiles(self.fs)

    def store(self) -> Store | Stores:
        return opened_store(self.data_dir, self.files())

    def check_on_disk(self, what: str) -> None:
        """UsageError if the data directory has an address: nothing can be linked or renamed there."""
        if any(is_address(each.strip()) for each in self.data_dir.split(",")):
            raise UsageError(
                f"{self.data_dir}: {what} needs hard links and renames, which stores do not have: copy the directory to a disk"
            )

    def partitions(self, store: Store | Stores) -> list[TopicPartition]:
        """Those of the topics in a store, in order. UsageError if one has none."""
        return [tp for topic in self._topics for tp in store.topic_partitions(topic, self.partition)]

    def is_of(self, tp: TopicPartition) -> bool:
        """Whether a plan's partition is among those that are meant."""
        return (self.topic is None or tp.topic in self._topics) and self.partition in (None, tp.partition)

    @property
    def _topics(self) -> list[str | None]:
        """In order, each once; None is all."""
        return [*dict.fromkeys([None] if self.topic is None else self.topic.split(","))]


def plan_partition(job: Job, tp: TopicPartition, *, resume: bool = False, discards: bool = True) -> CompactionPlan:
    """The pending plan, if it can be gone on with and the topic's configs are still the same; else one that is not saved.

    One that is stale (see `is_stale`) cannot. A pending plan that is passed over is discarded, unless its installation has
    begun.

    Args:
        resume: The pending plan will do, whatever the configs, and no other; a new one only where there is none.
        discards: False leaves what is passed over where it is.

    Raises:
        UsageError, CorruptSourceError, SourceChangedError: As `make_plan` and `open_log`. UsageError also while a move of the
            log between data directories has not come to its end.
    """
    store, files = job.store().of(tp), OsFiles()
    store.check_settled(tp)
    config = store.config_of(tp.topic, job.configs)
    closed_up_to = roll(files, store, tp, job.now_ms()) if job.includes_active and config.is_compact else 0
    for earlier in reversed(pending_plans(files, store.data_dir, tp)):
        if is_plan_installed(earlier, files):
            continue
        if resume:
            return earlier
        if is_begun(earlier, files):
            has_rest = bool(pending_groups(earlier, files))
            if not is_overtaken(earlier, files, job.engine.survey) and not (
                has_rest and is_stale(earlier, job.now_ms())
            ):
                return earlier
            job.say(
                f"{tp}: plan {earlier.plan_id} is partly installed, and the rest has changed or is stale: planned anew"
            )
            continue
        is_same = earlier.key_hash == KEY_HASH and all(
            earlier.config[name] == getattr(config, name) for name in CONFIGS
        )
        if is_same and earlier.upper_offset >= closed_up_to and not is_stale(earlier, job.now_ms()):
            with suppress(SourceChangedError):
                check_sources(files, earlier, survey=job.engine.survey)
                return earlier
        if discards:
            forget(earlier)
    now_ms, expiration_ms = job.now_ms(), store.producer_expiration_ms(job.configs)
    try:
        with open_log(store, tp, now_ms=now_ms, config=config, producer_expiration_ms=expiration_ms) as log:
            return make_plan(
                log,
                data_dir=store.data_dir,
                checkpoint=log.cleaner_checkpoint,
                now_ms=now_ms,
                secret=job.secret(),
                survey=job.engine.survey,
            )
    except KafkaError as error:
        raise CorruptSourceError(getattr(error, "message", str(error))) from error
    except FileNotFoundError as error:
        raise SourceChangedError(f"{error.filename} went away while {tp} was planned: a server is at work") from error


def save(plan: CompactionPlan) -> bool:
    """Put a plan into its staging directory, if it has something to do and is not there; whether it was new."""
    if not plan.sources or any(
        each.plan_id == plan.plan_id for each in pending_plans(OsFiles(), plan.data_dir, plan.topic_partition)
    ):
        return False
    save_plan(OsFiles(), plan)
    return True


def pending(job: Job) -> list[CompactionPlan]:
    """The plans beside each of the data directories. UsageError where there can be none."""
    job.check_on_disk("what compact stages and install takes")
    return [plan for store in job.store().stores for plan in pending_plans(OsFiles(), store.data_dir)]


def find_plan(job: Job, plan_id: str) -> CompactionPlan:
    """
    Raises:
        UsageError: There is no such plan.
    """
    for each in pending(job):
        if each.plan_id == plan_id:
            return each
    raise UsageError(f"{job.store().data_dir}: expected a plan {plan_id} beside it, found none")


def forget(plan: CompactionPlan) -> None:
    """Take a plan away, with all that it has staged and the originals that it has kept."""
    discard(plan, OsFiles())
    with suppress(OSError):  # other plans are there
        os.rmdir(paths.staging_root(plan.data_dir))
