"""Segments in remote storage managers' layout are read as in a data directory; unclear ones are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow as pa

from ottla.pipeline.errors import UsageError
from ottla.pipeline.source.batch_reader import read_task, tasks
from ottla.pipeline.source.push_down import Narrowing
from ottla.pipeline.source.read_options import parse_options
from support.pipeline.stored_topic import TOPIC, stored_topic

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"


def read(path: str, **options: str) -> list[dict[str, object]]:
    wanted = parse_options({"path": path, **options})
    return [
        row
        for task in tasks(wanted, Narrowing())
        for batch in read_task(task, wanted, SCHEMA)
        for row in batch.to_pylist()
    ]


def segment_id(number: int) -> str:
    return f"{number:04}-_f9f8BMS4anaUnD8K"


def local_tiered(data_dir: Path, out: Path) -> str:
    for partition in (0, 1):
        place = out / f"{TOPIC}-{partition}-{TOPIC_ID}"
        place.mkdir(parents=True)
        for number, log in enumerate(sorted((data_dir / f"{TOPIC}-{partition}").glob("*.log"))):
            for kind in (".log", ".index", ".timeindex", ".txnindex"):
                if (source := log.with_suffix(kind)).exists():
                    shutil.copy(source, place / f"{int(log.stem)}-{segment_id(number)}{kind}")
            (place / f"{int(log.stem)}-{segment_id(number)}.leader_epoch_checkpoint").write_text("0\n0\n")
            (place / f"{int(log.stem)}-{segment_id(number)}.snapshot").write_bytes(b"not looked at")
    return f"localtiered+file://{out}"


def aiven(data_dir: Path, out: Path, *, compression: bool = False, encryption: object = None) -> str:
    for partition in (0, 1):
        place = out / f"{TOPIC}-{TOPIC_ID}" / f"{partition}"
        place.mkdir(parents=True)
        for number, log in enumerate(sorted((data_dir / f"{TOPIC}-{partition}").glob("*.log"))):
            stem = f"{log.stem}-{segment_id(number)}"
            shutil.copy(log, place / f"{stem}.log")
            pieces, places = b"", {}
            for name, kind in (("offset", ".index"), ("timestamp", ".timeindex"), ("transaction", ".txnindex")):
                data = log.with_suffix(kind).read_bytes() if log.with_suffix(kind).exists() else b""
                places[name] = {"position": len(pieces), "size": len(data)} if data else None
                pieces += data
            (place / f"{stem}.indexes").write_bytes(pieces)
            fields = {"version": "1", "segmentIndexes": places, "compression": compression}
            fields |= {} if encryption is None else {"encryption": encryption}
            (place / f"{stem}.rsm-manifest").write_text(json.dumps(fields))
    return f"aiven+file://{out}"


LAYOUTS = (local_tiered, aiven)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("max_bytes", ["1", "1000000"])
def test_tiered_segments_are_read_like_the_directory(
    tmp_path: Path, layout: Callable[[Path, Path], str], isolation: str, max_bytes: str
) -> None:
    data_dir = stored_topic(tmp_path)
    options = {"isolationLevel": isolation, "maxPartitionBytes": max_bytes}
    address = layout(data_dir, tmp_path / "tiered-1")
    expected = read(str(data_dir), **options)
    assert read(address, **options) == expected
    assert read(f"{address}/{TOPIC}-0", **options) == [row for row in expected if row["partition"] == 0]
    assert expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_overlapping_uploads_of_two_leaders_are_read_once(tmp_path: Path, layout: Callable[[Path, Path], str]) -> None:
    """The second leader's segment begins before the first one's ends; and an interrupted upload was repeated."""
    data_dir = stored_topic(tmp_path)
    expected = read(str(data_dir))
    directory = data_dir / f"{TOPIC}-0"
    logs = sorted(directory.glob("*.log"))
    logs[0].write_bytes(logs[0].read_bytes() + logs[1].read_bytes())
    for kind in (".index", ".timeindex"):
        logs[0].with_suffix(kind).write_bytes(b"")
    address = layout(data_dir, tmp_path / "tiered")
    (broken,) = [
        each
        for each in (tmp_path / "tiered").rglob(f"*-{segment_id(1)}.log")
        if each.parent.name.startswith((f"{TOPIC}-0", "0"))
    ]
    again = broken.with_name(broken.name.replace(segment_id(1), segment_id(9)))
    for kind in (".log", ".index", ".timeindex", ".indexes", ".rsm-manifest"):
        if broken.with_suffix(kind).exists():
            shutil.copy(broken.with_suffix(kind), again.with_suffix(kind))
    broken.write_bytes(broken.read_bytes()[:50])
    assert read(address) == expected


def test_an_upload_without_its_manifest_does_not_count(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    address = aiven(data_dir, tmp_path / "tiered")
    last = max((tmp_path / "tiered" / f"{TOPIC}-{TOPIC_ID}" / "1").glob("*.rsm-manifest"))
    base_offset = int(last.name[:20])
    last.unlink()
    assert read(address) == [
        row for row in read(str(data_dir)) if row["partition"] == 0 or int(str(row["offset"])) < base_offset
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compression": True}, "found compressed ones"),
        ({"encryption": {"dataKey": "k:x", "aad": "x"}}, "found encrypted ones"),
        ({"compression": True, "encryption": {"aad": "x"}}, "found compressed and encrypted ones"),
    ],
)
def test_unclear_layouts_are_refused_in_one_line(tmp_path: Path, options: dict[str, object], said: str) -> None:
    address = aiven(stored_topic(tmp_path), tmp_path / "tiered", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said):
        read(address)


def test_a_recreated_topic_is_refused(tmp_path: Path) -> None:
    address = local_tiered(stored_topic(tmp_path), tmp_path / "tiered")
    (tmp_path / "tiered" / f"{TOPIC}-0-{TOPIC_ID[::-1]}").mkdir()
    with pytest.raises(UsageError, match="found two with orders-0"):
        read(address)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(UsageError, match=r"other\+s3://: expected one of aiven\+, localtiered\+"):
        read("other+s3://bucket/x")
