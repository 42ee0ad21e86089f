"""Installing into a running broker: the broker swaps the segments, its cleaner waits, clients notice nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

import ottla
from ottla.pipeline.compaction.local import compact_locally
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import group_directory, originals_directory, save_plan
from ottla.pipeline.errors import SourceChangedError, StoreLockedError, UsageError
from ottla.pipeline.install.admin_client import AdminClient
from ottla.pipeline.install.install import InstallResult, install
from ottla.pipeline.install.install_online import install_online
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import open_log
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import CLEANER_CHECKPOINT, TopicPartition
from support.broker.compacting import QUICK, VALUE, alter, consume, create_compacted, last_values, let_clean
from support.broker.conversation import produce
from support.broker.raw_client import RawClient
from support.logs.make_log import SECRET

T_0 = TopicPartition("t", 0)
BATCHES = 7
FILES = OsFiles()


class Served:
    """A broker with a compacted topic that only the pipeline finds dirty enough, and the pipeline's staged groups."""

    def __init__(self, broker: ottla.Broker, client: RawClient, data_dir: Path) -> None:
        self.broker, self.client, self.data_dir = broker, client, data_dir
        assert broker.admin is not None
        self.admin = broker.admin
        self.plan = self._compacted()

    def _compacted(self) -> CompactionPlan:
        async def flushed() -> None:
            await self.broker.inner.services.appends.flusher.flush(self.broker.inner.services.logs.logs.values())
            await self.broker.inner.background_jobs.checkpoint_recovery_points()

        self.broker.run(flushed)
        with open_log(Store(str(self.data_dir)), T_0, now_ms=1_000_000) as log:
            plan = make_plan(log, data_dir=str(self.data_dir), checkpoint=None, now_ms=1_000_000, secret=SECRET)
        save_plan(FILES, plan)
        compact_locally(plan, source_files=ReadingFiles(), files=FILES)
        return plan

    def install(self, max_groups: int | None = None) -> InstallResult:
        return install_online(self.plan, self.admin, FILES, now_ms=1_000_000, max_groups=max_groups)

    @property
    def cleaning(self) -> object:
        return AdminClient(self.admin).get("status", {"topic": "t", "partition": 0})["cleaning"]

    def offsets(self) -> list[int]:
        return [record.offset for record in consume(self.client, "t")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    data_dir = tmp_path / "data"
    with ottla.Broker(str(data_dir), overrides=QUICK, admin="0") as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with RawClient(host, int(port)) as client:
            create_compacted(client, "t", min_cleanable_dirty_ratio=1)
            for number in range(BATCHES):
                produce(client, "t", (f"k{number % 2}", VALUE))
            yield Served(broker, client, data_dir)


def test_the_broker_serves_the_staged_groups(served: Served) -> None:
    values = last_values(served.client, "t")
    expected = {
        path.name: path.read_bytes()
        for group in range(len(served.plan.groups))
        for path in Path(group_directory(served.plan, group)).glob("0*")
    }
    done: list[int] = []
    result = install_online(served.plan, served.admin, FILES, now_ms=1_000_000, on_group=done.append)
    assert result == InstallResult(tuple(range(len(served.plan.groups))), ())
    assert done == list(result.installed)
    assert served.offsets() == [4, 5, 6]
    assert last_values(served.client, "t") == values
    assert {name: (served.data_dir / "t-0" / name).read_bytes() for name in expected} == expected
    assert OffsetCheckpoint(FILES, f"{served.data_dir}/{CLEANER_CHECKPOINT}").read() == {T_0: served.plan.upper_offset}
    assert len(list(Path(originals_directory(served.plan)).glob("*.log"))) == len(served.plan.sources)
    assert served.cleaning == "not held"
    assert served.install() == InstallResult((), ())


def test_files_installed_into_a_broker_have_the_mode_of_the_replaced_ones(served: Served) -> None:
    directory = served.data_dir / "t-0"
    for path in directory.glob("*.log"):
        path.chmod(0o640)
    assert served.install().is_complete
    installed = [f"{served.plan.group_base(group):020}.log" for group in range(len(served.plan.groups))]
    assert {stat.S_IMODE((directory / name).stat().st_mode) for name in installed} == {0o640}


def test_appends_may_happen_between_parts(served: Served) -> None:
    count = len(served.plan.groups)
    assert count > 1
    for group in range(count):
        assert served.install(max_groups=1) == InstallResult((group,), tuple(range(group + 1, count)))
        assert served.cleaning == "not held"
        produce(served.client, "t", ("k0", VALUE))
    assert served.offsets() == [4, 5, *range(6, BATCHES + count)]


def test_a_plan_may_be_installed_partly_online_and_partly_offline(served: Served) -> None:
    served.install(max_groups=1)
    with pytest.raises(StoreLockedError, match="held by another broker"):
        install(served.plan, FILES, now_ms=1_000_000)
    served.broker.stop()
    assert install(served.plan, FILES, now_ms=1_000_000).is_complete
    served.broker.start()
    host, _, port = served.broker.bootstrap.rpartition(":")
    with RawClient(host, int(port)) as client:
        assert [record.offset for record in consume(client, "t")] == [4, 5, 6]


def test_segments_cleaned_by_the_broker_are_left_alone(served: Served) -> None:
    alter(served.client, "t", min_cleanable_dirty_ratio=0, internal_segment_bytes=100_000)
    produce(served.client, "t", ("k1", VALUE * 200))
    let_clean(served.broker)
    before = served.offsets()
    with pytest.raises(SourceChangedError):
        served.install()
    assert served.offsets() == before
    assert served.cleaning == "not held", "the lease was given back"


def test_concurrent_installs_are_refused(served: Served) -> None:
    lease = AdminClient(served.admin).post("pause", {"topic": "t", "partition": 0, "lease_ms": 60_000})["lease"]
    with pytest.raises(StoreLockedError, match="t-0 is already leased"):
        served.install()
    AdminClient(served.admin).post("resume", {"topic": "t", "partition": 0, "lease": lease})
    assert served.install().is_complete


def test_damaged_files_are_not_installed(served: Served) -> None:
    with open(Path(group_directory(served.plan, 0), f"{0:020}.log"), "ab") as file:
        file.write(b"\0")
    with pytest.raises(UsageError, match=r"\.log: expected"):
        served.install()
    assert served.offsets() == list(range(BATCHES))
    assert served.cleaning == "not held"


def test_a_broker_of_another_directory_is_refused(served: Served, tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path / "other"), admin="0") as other:
        host, _, port = other.bootstrap.rpartition(":")
        with RawClient(host, int(port)) as client:
            create_compacted(client, "t")
        assert other.admin is not None
        with pytest.raises(UsageError, match="expected the server of"):
            install_online(served.plan, other.admin, FILES, now_ms=1)


def test_an_unreachable_broker_is_reported(served: Served) -> None:
    served.broker.stop()
    with pytest.raises(UsageError, match="expected a server's admin listener"):
        served.install()
    served.broker.start()
