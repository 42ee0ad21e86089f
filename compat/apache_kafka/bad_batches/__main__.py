"""Invalid batches: Apache Kafka's answers and stored headers, compared with Ottla's.

The batches of the table are sent over a bare socket, each on its own. Apache Kafka's answers are recorded (`--record`) in
`tests/storage/data/bad_batches.json`, which `tests/storage/produce/test_bad_batches.py` checks without a socket. Intended
differences of Ottla are in `bad_batches_meant.json` next to it, with their reasons.
"""

import argparse
import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

from ottla.storage import kernel

from ...support.brokers.any_broker import broker_process
from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection, produce_body
from ...support.clients.steps import create_topic, set_topic_configs
from ...support.logs.segment_files import batch_headers, segments
from ...support.suite import NotRunError, Options, Suite, run_suite
from .table import TOPICS, table

HERE = Path(__file__).parent
RECORDING = HERE.parents[2] / "tests" / "storage" / "data" / "bad_batches.json"
MEANT = RECORDING.with_name("bad_batches_meant.json")
PRODUCE, PRODUCE_VERSION = 0, 8  # the first with record errors, the last without tagged fields
UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD = 3, 87
REFUSED = {"code": INVALID_RECORD, "records": [], "stored": None}


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    if options.against == "ottla" and not kernel.COMPILED:
        raise NotRunError("the compiled kernel: without it not every record is looked at")
    now_ms = int(time.time() * 1000)
    with broker_process(options) as broker:
        answers = send_all(broker, now_ms)
    if options.rest.record:
        entries = {
            name: {"topic": topic, "batch": build(now_ms).hex(), **answers[name]}
            for name, (topic, build) in table().items()
        }
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        topics = json.dumps(TOPICS)
        RECORDING.write_text(f'{{\n "now_ms": {now_ms},\n "topics": {topics},\n "batches": {{\n{lines}\n }}\n}}\n')
    recorded = json.loads(RECORDING.read_text())["batches"]
    meant = differences() if options.against == "ottla" else {}
    suite.equal("every recorded batch was sent", list(recorded), list(answers))
    for name, answer in answers.items():
        expected = {field: recorded[name][field] for field in answer}
        if name in meant:
            suite.check(f"{name}: differs, as is meant", answer != expected, meant[name])
            expected = REFUSED
        suite.equal(name, expected, answer)


def differences() -> dict[str, str]:
    """Return the name of a batch that Ottla alone refuses with INVALID_RECORD -> why."""
    return {name: entry["why"] for entry in json.loads(MEANT.read_text()) for name in entry["batches"]}


def send_all(broker: BrokerProcess, now_ms: int) -> dict[str, Any]:
    """Return name -> error code, indexes of the records named, and of an accepted batch the fields that may have changed."""
    for topic, configs in TOPICS.items():
        create_topic(broker.bootstrap, topic)
        if configs:
            set_topic_configs(broker.bootstrap, topic, **{key.replace(".", "_"): each for key, each in configs.items()})
    found = {}
    with RawConnection("127.0.0.1", broker.port) as connection:
        for name, (topic, build) in table().items():
            code, indexes = UNKNOWN_TOPIC_OR_PARTITION, list[int]()
            while code == UNKNOWN_TOPIC_OR_PARTITION:  # Apache Kafka's new leader is not there at once
                request = produce_body(topic, 0, build(now_ms))
                code, indexes = answer_of(connection.request(PRODUCE, PRODUCE_VERSION, request), topic)
            stored = None if code else stored_header(broker, topic, now_ms)
            found[name] = {"code": code, "records": indexes, "stored": stored}
    return found


def answer_of(response: bytes, topic: str) -> tuple[int, list[int]]:
    """Return error code and the indexes of the records named, of the only partition in a Produce v8 response."""
    at = 4 + 2 + len(topic) + 4
    _, code, _, _, _, count = struct.unpack_from(">ihqqqi", response, at)
    at += 34
    indexes = []
    for _ in range(count):
        index, length = struct.unpack_from(">ih", response, at)
        indexes.append(index)
        at += 6 + max(length, 0)
    return code, indexes


def stored_header(broker: BrokerProcess, topic: str, now_ms: int) -> dict[str, int]:
    """Return the header of the newest batch on the disk."""
    *_, last = batch_headers(segments(broker.partition_dir(topic))[-1])
    newest = last.max_timestamp - now_ms if abs(last.max_timestamp - now_ms) < 1 << 40 else last.max_timestamp
    return {
        "attributes": last.attributes,
        "offsets": last.last_offset - last.base_offset + 1,
        "records": last.record_count,
        **({} if TOPICS[topic].get("message.timestamp.type") else {"max_timestamp": newest}),
    }


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="with --against apache-kafka: record its answers")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.bad_batches", body, doc=__doc__, more_arguments=more_arguments))
