"""Choice of the plan that a command works on: the pending one next to the data directory, or a new one.

A plan is pending until it is wholly installed. Then it is kept for `verify`, with the segments that it has replaced, until
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
    """Options that all commands share, and the logs that they select; `jobs.job` makes it."""

    data_dir: str
    """Path or address; several have commas between them."""
    topic: str | None
    """Name; several have commas between them. None is all."""
    partition: int | None
    configs: Mapping[str, str]
    engine: Engine
    say: Say
    """Receive a line of progress."""
    fs: FsOptions
    """Options of stores, for a data directory with an address."""
    admin: str | None
    """HOST:PORT of the admin listener of the server that runs over the directory; None if it is stopped."""
    at_once: int
    """Number of partitions that are worked on at a time."""
    includes_active: bool = False
    """Whether the active segment is rolled first; only for a directory without a running server."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    secret: Callable[[], bytes] = lambda: secrets.token_bytes(SECRET_BYTES)
    installing: AbstractContextManager[object] = field(default_factory=threading.Lock)
    """Lock that allows one install at a time, as an install holds the lock of the data directory."""

    def files(self) -> ReadingFiles:
        return ReadingFiles(self.fs)

    def store(self) -> Store | Stores:
        return opened_store(self.data_dir, self.files())

    def check_on_disk(self, what: str) -> None:
        """Raise UsageError if the data directory has an address, where nothing can be linked or renamed."""
        if any(is_address(each.strip()) for each in self.data_dir.split(",")):
            raise UsageError(
                f"{self.data_dir}: {what} needs hard links and renames, which stores do not have: copy the directory to a disk"
            )

    def partitions(self, store: Store | Stores) -> list[TopicPartition]:
        """Return the partitions of the topics in a store, in order. Raises UsageError if a topic has none."""
        return [tp for topic in self._topics for tp in store.topic_partitions(topic, self.partition)]

    def is_of(self, tp: TopicPartition) -> bool:
        """Return whether a plan's partition is among the selected ones."""
        return (self.topic is None or tp.topic in self._topics) and self.partition in (None, tp.partition)

    @property
    def _topics(self) -> list[str | None]:
        """Names of the topics in order, each once; None is all."""
        return [*dict.fromkeys([None] if self.topic is None else self.topic.split(","))]


def plan_partition(job: Job, tp: TopicPartition, *, resume: bool = False, discards: bool = True) -> CompactionPlan:
    """Return the pending plan if it can be continued and the topic's configs are still the same, else a new, unsaved one.

    A stale plan (see `is_stale`) cannot be continued. A pending plan that is not used is discarded, unless its installation has
    begun.

    Args:
        resume: Continue the pending plan, whatever the configs. A new plan is made only if none exists.
        discards: False keeps a plan that is not used.

    Raises:
        UsageError, CorruptSourceError, SourceChangedError: As `make_plan` and `open_log`. UsageError also while the log is
            being moved between data directories.
    """
    store, files = job.store().store_of(tp), OsFiles()
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
                f"{tp}: plan {earlier.plan_id} is partly installed, and the rest has changed or is stale: making a new plan"
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
        raise SourceChangedError(f"{error.filename} was deleted while {tp} was planned: a server is at work") from error


def save(plan: CompactionPlan) -> bool:
    """Save a plan in its staging directory, if it has work and is not there; return whether it was new."""
    if not plan.sources or any(
        each.plan_id == plan.plan_id for each in pending_plans(OsFiles(), plan.data_dir, plan.topic_partition)
    ):
        return False
    save_plan(OsFiles(), plan)
    return True


def pending(job: Job) -> list[CompactionPlan]:
    """Return the plans next to each of the data directories. Raises UsageError for addresses, which cannot have plans."""
    job.check_on_disk("what compact stages and install takes")
    return [plan for store in job.store().stores for plan in pending_plans(OsFiles(), store.data_dir)]


def find_plan(job: Job, plan_id: str) -> CompactionPlan:
    """Return the plan with this id.

    Raises:
        UsageError: No such plan exists.
    """
    for each in pending(job):
        if each.plan_id == plan_id:
            return each
    raise UsageError(f"{job.store().data_dir}: expected a plan {plan_id} next to it, found none")


def forget(plan: CompactionPlan) -> None:
    """Delete a plan, with everything that it has staged and the originals that it has kept."""
    discard(plan, OsFiles())
    with suppress(OSError):  # other plans exist
        os.rmdir(paths.staging_root(plan.data_dir))
