"""Batches that no client should send, answered as Apache Kafka answered them.

`compat/apache_kafka/bad_batches` makes the table and records it; the table also has the intended differences of Ottla.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import RecordBatch
from ottla.storage.produce import record_checks
from ottla.storage.produce.record_checks import InvalidRecordError
from ottla.storage.produce.validation import assign, check_batch
from ottla.storage.topics.config import LogConfig
from support.cleaner.kernels import INTERPRETED, both

DATA = Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "bad_batches.json").read_text())
MEANT = json.loads((DATA / "bad_batches_meant.json").read_text())
DIFFERENT = {name for entry in MEANT for name in entry["batches"]}
REFUSED = {"code": ErrorCode.INVALID_RECORD, "records": [], "stored": None}


def answer(batch: bytes, configs: dict[str, str], now_ms: int, *, at_once: bool = False) -> dict[str, Any]:
    """Return the answer to the producer and the stored bytes, in the table's form."""
    config = LogConfig.from_texts(configs)
    try:
        checked = check_batch(batch, topic_partition="t-0", config=config, now_ms=now_ms, at_once=at_once)
    except KafkaError as error:
        named = [index for index, _ in error.record_errors] if isinstance(error, InvalidRecordError) else []
        return {"code": error.code, "records": named, "stored": None}
    written = RecordBatch(assign(checked, next_offset=7, now_ms=now_ms, leader_epoch=0).records)
    assert written.is_crc_valid()
    stored = {
        "attributes": written.attributes,
        "offsets": written.last_offset_delta + 1,
        "records": written.record_count,
    }
    if config.message_timestamp_type != record_checks.LOG_APPEND_TIME:
        newest = written.max_timestamp
        stored["max_timestamp"] = newest - now_ms if abs(newest - now_ms) < 1 << 40 else newest
    return {"code": 0, "records": [], "stored": stored}


@both
@pytest.mark.parametrize("name", RECORDED["batches"])
def test_responses_equal_apache_kafkas(name: str, kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "kernel", kernel)
    monkeypatch.setattr(kernel, "COMPILED", True)  # every record is checked, however slowly
    expected = RECORDED["batches"][name]
    sent = bytes.fromhex(expected["batch"]), RECORDED["topics"][expected["topic"]], RECORDED["now_ms"]
    found = answer(*sent)
    assert found == answer(*sent, at_once=True)
    theirs = {field: expected[field] for field in found}
    if name in DIFFERENT:
        assert theirs != found == REFUSED
    else:
        assert found == theirs


@pytest.mark.parametrize("name", [name for name in RECORDED["batches"] if "short: " in name and "gzip" in name])
def test_without_the_compiled_kernel_a_compressed_record_may_not_be_too_long_either(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "kernel", INTERPRETED)
    monkeypatch.setattr(record_checks, "_WALKS_PIECES", False)
    expected = RECORDED["batches"][name]
    configs = RECORDED["topics"][expected["topic"]]
    assert answer(bytes.fromhex(expected["batch"]), configs, RECORDED["now_ms"])["code"] == expected["code"]
