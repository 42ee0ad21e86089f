"""An upload is repeated until the object is complete, and not again after that."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import ExitCode, PipelineError
from ottla.pipeline.objects import failures
from ottla.pipeline.objects.failures import PAUSES_S
from ottla.pipeline.objects.object_files import ObjectFiles
from ottla.pipeline.objects.uploads import PIECE_BYTES, put, upload
from support.pipeline.counting_store import CountingStore, OpenerOf, raising

ADDRESS, PATH = "s3://out/snapshot/_manifest.json", "out/snapshot/_manifest.json"
LOST = OSError(
    "AWS Error NETWORK_CONNECTION during CompleteMultipartUpload operation: curlCode: 18, Transferred a partial file"
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAUSES_S", (0.0,) * len(PAUSES_S))


@pytest.mark.parametrize("data", [b"", b"{}", bytes(PIECE_BYTES + 1)], ids=["empty", "small", "of two pieces"])
@pytest.mark.parametrize("kind", ["write", "written", "info"])
def test_a_failed_upload_is_repeated(tmp_path: Path, kind: str, data: bytes) -> None:
    store = CountingStore()
    store.before = raising(LOST, kinds=[kind], times=len(PAUSES_S))
    path = tmp_path / "file"
    path.write_bytes(data)
    upload(ObjectFiles(OpenerOf(store)), str(path), ADDRESS)
    assert store.objects[PATH][0] == data


def test_an_existing_object_is_accepted_without_a_response() -> None:
    """The upload was repeated up to the limit if every answer after the last part was lost.

    An existing snapshot was then reported as failed.
    """
    store = CountingStore()
    store.before = raising(LOST, kinds=["answered"], times=99)
    put(ObjectFiles(OpenerOf(store)), ADDRESS, b"{}")
    assert store.objects[PATH][0] == b"{}"
    assert store.asked["write"] == 1


def test_a_store_that_never_completes_an_upload_is_reported() -> None:
    store = CountingStore()
    store.before = raising(LOST, kinds=["written"], times=99)
    with pytest.raises(
        PipelineError,
        match=r"_manifest\.json: the store does not answer",
        check=lambda error: error.exit_code == ExitCode.FAILED,
    ):
        put(ObjectFiles(OpenerOf(store)), ADDRESS, b"{}")
    assert store.objects == {}
    assert store.asked["write"] == len(PAUSES_S) + 1
