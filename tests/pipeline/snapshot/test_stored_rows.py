"""Rows of stored files by partition: in their order, and from any place on."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.snapshot import stored_rows
from ottla.pipeline.snapshot.stored_rows import StoredPart, StoredSnapshot, digest

FILES, ROWS = 4, 30


def written(directory: Path, *, partitions: int, sizes: int = 0, **options: object) -> Path:
    """Write files with rows of random partitions; one is empty."""
    rng = random.Random(partitions)
    directory.mkdir()
    for number in range(FILES):
        count = 0 if number == 1 else ROWS
        of_file = rng.sample(range(partitions), rng.randint(1, partitions))
        columns = {
            "key": pa.array([rng.randbytes(3) for _ in range(count)], pa.binary()),
            "value": pa.array([bytes(sizes) for _ in range(count)], pa.binary()),
            "partition": pa.array(sorted(rng.choices(of_file, k=count)), pa.int32()),
            "offset": pa.array(range(number * ROWS, number * ROWS + count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("ms")),
        }
        pq.write_table(pa.table(columns), directory / f"part-{number}.parquet", row_group_size=7, **options)
    return directory


def rows(part: StoredPart, from_row: int = 0) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for _, batch in part.batches(from_row) for row in batch.to_pylist()]


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("statistics", [True, False])
def test_each_partition_has_its_rows_in_the_order_of_the_files(
    tmp_path: Path, partitions: int, statistics: bool
) -> None:
    directory = written(tmp_path / "rows", partitions=partitions, write_statistics=statistics)
    table = pa.concat_tables(pq.read_table(path) for path in sorted(directory.iterdir())).to_pylist()
    expected = sorted((row["partition"], row["offset"]) for row in table)
    parts = StoredSnapshot(str(directory)).parts()
    assert [row for part in parts for row in rows(part)] == expected
    assert [part.partition for part in parts] == sorted({partition for partition, _ in expected})


def test_a_reader_continues_at_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rows, "BATCH_ROWS", 3)
    for part in StoredSnapshot(str(written(tmp_path / "rows", partitions=3))).parts():
        every = rows(part)
        sent = pickle.loads(pickle.dumps(part))
        before = 0
        for place, batch in part.batches():
            before += batch.num_rows
            assert rows(sent, place) == every[before:], place
        assert place == part.row_count and before == len(every)


def test_a_place_may_be_inside_a_batch(tmp_path: Path) -> None:
    (part,) = StoredSnapshot(str(written(tmp_path / "rows", partitions=1))).parts()
    every = rows(part)
    for place in range(part.row_count + 1):
        assert rows(part, place) == every[place:]


def test_large_rows_come_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rows, "BATCH_BYTES", 5_000)
    options = {"use_dictionary": False, "compression": "none"}
    (part,) = StoredSnapshot(str(written(tmp_path / "rows", partitions=1, sizes=1_000, **options))).parts()
    assert max(batch.num_rows for _, batch in part.batches()) == 3


def test_a_row_without_a_partition_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"key": [b"a", b"b"], "partition": pa.array([0, None], pa.int32())}), path)
    with pytest.raises(UsageError, match="expected a partition in each row, found none in one of row group 0"):
        StoredSnapshot(str(path)).parts()


def test_copies_have_one_digest_and_other_files_another(tmp_path: Path) -> None:
    found = [
        digest(manifest, StoredSnapshot(str(written(tmp_path / name, partitions=partitions))).parts())
        for name, partitions, manifest in (("a", 3, ""), ("copy", 3, ""), ("other", 2, ""), ("later", 3, "later"))
    ]
    assert found[0] == found[1] and len(set(found)) == 3


def one_file(directory: Path, *values: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    count = len(values)
    columns = {"key": [b"k"] * count, "value": list(values), "partition": pa.array([0] * count, pa.int32())}
    pq.write_table(pa.table(columns | {"offset": list(range(count))}), directory / "part-00000.parquet")
    return directory


def test_files_of_equal_sizes_with_other_values_have_another_digest(tmp_path: Path) -> None:
    parts = [StoredSnapshot(str(one_file(tmp_path / name, name.encode()))).parts() for name in ("a", "b")]
    assert parts[0][0].groups[0].size_bytes == parts[1][0].groups[0].size_bytes
    assert digest("", parts[0]) != digest("", parts[1])


@pytest.mark.parametrize("values", [(b"c", b"d"), (), (b"a",)])
def test_a_file_that_is_replaced_is_not_read(tmp_path: Path, values: tuple[bytes, ...]) -> None:
    """A snapshot that overwrites another has files of the same names."""
    (part,) = StoredSnapshot(str(one_file(tmp_path / "rows", b"a", b"b"))).parts()
    one_file(tmp_path / "rows", *values)
    with pytest.raises(SourceChangedError, match=r"part-00000\.parquet: expected the file that was there before"):
        list(part.batches())


def test_each_file_has_the_columns_of_the_first(tmp_path: Path) -> None:
    directory = one_file(tmp_path / "rows", b"a")
    pq.write_table(pa.table({"key": [b"k"], "offset": [1]}), directory / "part-00001.parquet")
    with pytest.raises(UsageError, match=r"part-00001\.parquet: .* found no partition, value"):
        StoredSnapshot(str(directory)).parts()
