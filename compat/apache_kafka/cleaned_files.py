"""Every file that Ottla's cleaner leaves, checked by `kafka-dump-log`; and the directory opened by Apache Kafka.

The logs of `histories` are checked before any pass, after one, and after two more over later writes, when the delete horizons
of the first pass have expired. Then Ottla and Apache Kafka serve the same directory one after the other: both show the same
records under both isolation levels, with the newest value of every key.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.brokers.apache_kafka import ApacheKafkaProcess
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import ReadRecord, create_topic, read_partitions, set_topic_configs
from ..support.logs.segment_files import batch_headers, index_faults, segments
from ..support.suite import Options, Suite
from .dump_log import judge_files
from .histories import Partition, Writer, partitions

NOT_CLEANING = {"log.cleaner.enable": "false"}
STAMPED, DELETE_HORIZON = 0x08, 0x40
Records = dict[tuple[str, int], list[ReadRecord]]


def judge_cleaned_files(suite: Suite, options: Options) -> None:
    if options.quick:
        with TemporaryDirectory(prefix="compat-cleaned-") as folder:
            fill_and_clean(suite, Path(folder))
        return
    with ApacheKafkaProcess(overrides=NOT_CLEANING, keep=options.keep) as kafka:
        for partition in partitions():
            configs = {name.replace(".", "_"): value for name, value in partition.configs.items()}
            create_topic(kafka.bootstrap, partition.topic)
            set_topic_configs(kafka.bootstrap, partition.topic, **configs)
        kafka.stop()
        filled = fill_and_clean(suite, kafka.data)
        with OttlaProcess(data=kafka.data, overrides=NOT_CLEANING, keep=options.keep) as ottla:
            shown = read_both(ottla, filled)
        kafka.start()
        shown_by_kafka = read_both(kafka, filled)
    for isolation, ours, theirs in zip(("uncommitted", "committed"), shown, shown_by_kafka, strict=True):
        different = [topic for topic, _ in ours if ours[topic, 0] != theirs[topic, 0]]
        count = sum(map(len, ours.values()))
        suite.check(f"cleaned by Ottla: the same to Apache Kafka, read_{isolation}", not different, different or count)
    for partition in filled:
        newest = {record.key: record.value for record in shown_by_kafka[1][partition.topic, 0]}
        wrong = [key for key, (_, value) in partition.newest.items() if newest.get(key) != value]
        what = f"{partition.topic}: Apache Kafka shows the newest value of every key"
        suite.check(what, not wrong and set(newest) <= set(partition.newest), wrong[:3] or len(newest))


def fill_and_clean(suite: Suite, data: Path) -> list[Partition]:
    """Write and clean all logs, and check the files in between."""
    filled = partitions()
    writers = [Writer(data, partition) for partition in filled]
    for writer in writers:
        writer.write_segments(4, first=0)
        writer.reopen()
    before = features(data, filled)
    judge_files(suite, "Ottla's storage, before cleaning", data)
    for writer in writers:
        writer.clean(hours_later=24)
        writer.reopen()
    after = features(data, filled)
    judge_files(suite, "Ottla's storage, after a pass", data)
    for writer in writers:
        writer.write_segments(2, first=4)
        writer.clean(hours_later=2)
        writer.write_segments(1, first=6)
        writer.leave_one_open()
    dirty = features(data, filled)
    for writer in writers:
        writer.clean(hours_later=2)
        writer.close()
    last = features(data, filled)
    judge_files(suite, "Ottla's storage, after three passes", data)
    suite.equal("Ottla's storage: indexes describe their logs", [], faults(data, filled))
    judge_features(suite, before, after, dirty, last)
    return filled


def features(data: Path, filled: Iterable[Partition]) -> Counter[str]:
    """Count the features in these files."""
    found: Counter[str] = Counter()
    for partition in filled:
        directory = data / f"{partition.topic}-0"
        for segment in segments(directory):
            found["segments"] += segment.stat().st_size > 0
            found["aborted transactions"] += (segment.with_suffix(".txnindex")).exists()
            for header in batch_headers(segment):
                found["records"] += header.record_count
                found["markers"] += header.is_control
                found["horizons"] += bool(header.attributes & DELETE_HORIZON)
                found["empty batches"] += header.record_count == 0
                found["compressed"] += header.codec > 0
                found["stamped"] += bool(header.attributes & STAMPED)
    return found


def faults(data: Path, filled: Iterable[Partition]) -> list[str]:
    return [fault for partition in filled for fault in index_faults(data / f"{partition.topic}-0")]


def judge_features(
    suite: Suite, before: Counter[str], after: Counter[str], dirty: Counter[str], last: Counter[str]
) -> None:
    """Check that the judged files contained every feature."""
    for feature in ("markers", "compressed", "stamped", "aborted transactions"):
        suite.check(f"{feature} before cleaning", before[feature] > 0, before[feature])
    for feature in ("horizons", "empty batches"):
        suite.equal(f"no {feature} before cleaning", 0, before[feature])
        suite.check(f"{feature} after a pass", after[feature] > 0, after[feature])
    for feature in ("records", "segments"):
        fewer = after[feature] < before[feature] and last[feature] < dirty[feature]
        suite.check(
            f"fewer {feature} after the first and the last pass",
            fewer,
            [each[feature] for each in (before, after, dirty, last)],
        )
    gone = last["markers"] < dirty["markers"]
    suite.check("the last pass removes markers", gone, f"{dirty['markers']}, then {last['markers']}")


def read_both(broker: BrokerProcess, filled: Iterable[Partition]) -> tuple[Records, Records]:
    """Return everything under read_uncommitted, and under read_committed."""
    asked = [(partition.topic, 0) for partition in filled]
    committed = read_partitions(broker.bootstrap, asked, isolation="read_committed")
    return read_partitions(broker.bootstrap, asked), committed
