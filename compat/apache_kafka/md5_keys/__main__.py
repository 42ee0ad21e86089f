"""Different keys with one MD5 digest, over the wire: Ottla keeps the newest value of each, Apache Kafka does not.

Apache Kafka's cleaner distinguishes keys by their MD5 digests alone. Three published pairs, and more made by adding
suffixes, are written to compacted topics in every codec: once all in one batch, once in segments of their own. Apache
Kafka's result is in `apache_kafka.json`, written by `--record`. If java is installed, a live broker is checked as well.
"""

import argparse
import json
import sys
import time
from hashlib import md5
from pathlib import Path

from kafka.record.memory_records import MemoryRecordsBuilder

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ...support.brokers.cleaning import wait_until_cleaned
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.clients.steps import CODECS, create_topic, read_partitions
from ...support.suite import NotRunError, Options, Suite, run_suite

ROOT = Path(__file__).parents[3]
PAIRS_FILE = ROOT / "tests" / "storage" / "data" / "md5_pairs.txt"
RECORDING = Path(__file__).parent / "apache_kafka.json"
SUFFIXES = [b"-%d" % n for n in range(50)]
CLEANER = {"log.cleaner.backoff.ms": "100"}
TIMESTAMP_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
PRODUCE, PRODUCE_VERSION = 0, 7  # 7 is the first that takes zstd; its body is that of version 3
NOT_LED_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
LAYOUTS = ("one batch", "segments")

Write = tuple[bytes, bytes]


def pairs() -> list[tuple[bytes, bytes]]:
    """Return the pairs as published, and those of whole MD5 blocks with suffixes."""
    lines = PAIRS_FILE.read_text().splitlines()
    keys = [bytes.fromhex(line) for line in lines if line and line[0] != "#"]
    plain = list(zip(keys[::2], keys[1::2], strict=True))
    blocks = [pair for pair in plain if len(pair[0]) % 64 == 0]
    return plain + [(first + suffix, second + suffix) for first, second in blocks for suffix in SUFFIXES]


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    all_pairs = pairs()
    are_pairs = all(first != second and md5(first).digest() == md5(second).digest() for first, second in all_pairs)
    suite.check("different keys, the same digests", are_pairs, f"{len(all_pairs)} pairs")
    if options.against == "ottla":
        with OttlaProcess(overrides=CLEANER, keep=options.keep) as ottla:
            for topic, (lost, superseded) in judged(ottla, all_pairs).items():
                suite.equal(f"Ottla, {topic}: no key lost", 0, lost)
                suite.equal(f"Ottla, {topic}: superseded values removed", 0, superseded)
        if options.quick:
            return
    try:
        jars()
    except NotRunError as missing:
        suite.skip(f"a live Apache Kafka loses what {RECORDING.name} says", f"needs {missing}")
        return
    with ApacheKafkaProcess(overrides=CLEANER, keep=options.keep) as kafka:
        lost_there = {topic: lost for topic, (lost, _) in judged(kafka, all_pairs).items()}
    if options.rest.record:
        RECORDING.write_text(json.dumps({"keys": 2 * len(all_pairs), "lost": lost_there}, indent=1) + "\n")
    recorded = json.loads(RECORDING.read_text())
    suite.equal("recorded with as many keys", recorded["keys"], 2 * len(all_pairs))
    for topic, lost in recorded["lost"].items():
        suite.equal(f"Apache Kafka, {topic}: {lost} of {recorded['keys']} keys lost", lost, lost_there.get(topic))


def judged(broker: BrokerProcess, all_pairs: list[tuple[bytes, bytes]]) -> dict[str, tuple[int, int]]:
    """Return topic -> (keys without their newest value, remaining superseded values), when its cleaner is done."""
    old = [(key, b"old") for pair in all_pairs for key in pair]
    new = [(key, b"new") for pair in all_pairs for key in pair]
    firsts, seconds = new[::2], new[1::2]
    topics = {f"{layout}, {codec}": (layout, codec) for layout in LAYOUTS for codec in CODECS}
    names = {title: title.replace(", ", "-").replace(" ", "-") for title in topics}
    for title, (layout, codec) in topics.items():
        writes = [old + new] if layout == "one batch" else [old, firsts, seconds]
        write(broker, names[title], codec, writes)
    wait_until_cleaned(broker, *names.values())
    found = read_partitions(broker.bootstrap, [(name, 0) for name in names.values()])
    counts = {}
    for title, name in names.items():
        read = [(record.key, record.value) for record in found[name, 0]]
        counts[title] = (len(set(new) - set(read)), len([each for each in read if each in set(old)]))
    return counts


def write(broker: BrokerProcess, topic: str, codec: str, batches: list[list[Write]]) -> None:
    """Write one batch a segment, and one more to seal the last. Times an hour apart make segments end."""
    create_topic(
        broker.bootstrap, topic, cleanup_policy="compact", segment_ms=str(HOUR_MS // 2), min_cleanable_dirty_ratio="0"
    )
    with RawConnection("127.0.0.1", broker.port) as connection:
        for number, writes in enumerate([*batches, [(b"the last segment", b"")]]):
            body = produce_body(topic, 0, one_batch(writes, codec, TIMESTAMP_MS + number * HOUR_MS))
            deadline = time.monotonic() + 10
            while code := produce_result(connection.request(PRODUCE, PRODUCE_VERSION, body), topic)[0]:
                # Apache Kafka reports a new topic before its leader knows of it.
                assert code in NOT_LED_YET and time.monotonic() < deadline, f"{topic}: error {code}"
                time.sleep(0.05)


def one_batch(writes: list[Write], codec: str, timestamp_ms: int) -> bytes:
    builder = MemoryRecordsBuilder(2, CODECS.index(codec), sum(len(key) + 100 for key, _ in writes) + 1_000)
    for key, value in writes:
        builder.append(timestamp_ms, key, value, headers=[])
    builder.close()
    return bytes(builder.buffer())


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="write what Apache Kafka lost to apache_kafka.json")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.md5_keys", body, doc=__doc__, more_arguments=more_arguments))
