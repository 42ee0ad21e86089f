"""Copies of data directories in an S3 server: read, verified and snapshotted like the directories, with faults in between.

python -m compat.spark_objects [--quick] [--part equal|gs|faults|refused|many|costs]
"""

import argparse
import importlib.util
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.suite import NotRunError, Options, Suite, run_suite
from . import gcs
from .faults import FaultyProxy
from .server import BUCKET, REGION, S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = ("gs", "equal", "faults", "refused", "many", "costs")
QUICK = ("gs", "equal", "faults", "refused")
TOPIC = "orders"
FAULTS = ("error", "slow down", "reset", "cut", "slow")
SHARE = 0.12
SEGMENTS = 10_000
BIG_BYTES, QUICK_BIG_BYTES = 256 << 20, 16 << 20
STARTS, NOT_STARTED = 5, "Python worker failed to connect back"
"""Spark waits ten seconds for the Python that plans a stream, which imports PySpark first: on a busy machine it takes longer."""
SECONDS_MAX = 15.0
"""The time limit of a refusal, most of which is the start of Python."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=PARTS, help="only this one")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the pipeline")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    parts = (options.rest.part,) if options.rest.part else QUICK if options.quick else PARTS
    work = Path(tempfile.mkdtemp(prefix="ottla-spark-objects-"))
    try:
        Judge(suite, work, parts, quick=options.quick).run()
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


class Judge:
    """One run."""

    def __init__(self, suite: Suite, work: Path, parts: tuple[str, ...], *, quick: bool) -> None:
        self.suite = suite
        self.work = work
        self.parts = parts
        self.quick = quick
        self.small = work / "small" / "data"
        self.big = work / "big"
        self.many_dir = work / "many"

    def run(self) -> None:
        from support.pipeline.stored_topic import stored_topic

        stored_topic(self.work / "small", delete_retention_ms="86400000")
        directories = {"small": self.small}
        if {"faults", "costs"} & set(self.parts):
            _write_big(self.big, QUICK_BIG_BYTES if self.quick else BIG_BYTES)
            directories["big"] = self.big
        if "gs" in self.parts:
            gcs.judge(self.suite, self.small, self.work, TOPIC)
        if not set(self.parts) - {"gs"}:
            return
        if "many" in self.parts:
            _write_many(self.small, self.many_dir, SEGMENTS)
            directories["many"] = self.many_dir
        with s3_server(directories, self.work / "s3.log") as server:
            proxy = FaultyProxy(server.address, seed=7).start()
            os.environ.update(server.environment)
            try:
                for part in (each for each in self.parts if each != "gs"):
                    proxy.faults = {}
                    proxy.forget()
                    getattr(self, part)(server, proxy)
            finally:
                proxy.stop()

    # Parts

    def equal(self, _server: S3Server, proxy: FaultyProxy) -> None:
        """Check that a copy gives the same results as the directory."""
        from ottla.pipeline import jobs, latest, read

        with _session() as spark:
            fs = _fs(proxy)
            as_options = {f"fs.{name}": value for name, value in fs.items()}
            here, there = str(self.small), f"s3://{BUCKET}/small"
            for level in ("read_committed", "read_uncommitted"):
                expected = _rows(read(spark, here, topic=TOPIC, isolationLevel=level))
                self.suite.equal(
                    f"rows, {level}",
                    expected,
                    _rows(read(spark, there, topic=TOPIC, isolationLevel=level, **as_options)),
                )
                small = read(spark, there, topic=TOPIC, isolationLevel=level, maxPartitionBytes=1, **as_options)
                self.suite.equal(f"rows, {level}, in small parts", expected, _rows(small))
            self.suite.equal(
                "a stream's rows", _rows(read(spark, here, topic=TOPIC)), self._streamed(spark, there, as_options)
            )
            expected = _rows(latest(spark, here, topic=TOPIC))
            self.suite.equal("latest", expected, _rows(latest(spark, there, topic=TOPIC, fs_options=fs)))
            out = str(self.work / "out")
            jobs.snapshot(spark, there, topic=TOPIC, out=out, fs_options=fs)
            self.suite.equal("snapshot", expected, _rows(spark.read.parquet(out)))
            for against in (None, here, there):
                report = jobs.verify(spark, there, topic=TOPIC, against=against, fs_options=fs)
                own = jobs.verify(spark, here, topic=TOPIC, against=against, fs_options=fs)
                found = [(each.records, each.batches, each.finding_count) for each in report.partitions]
                self.suite.equal(
                    f"verify, against {against and against.partition(':')[0]}",
                    [(each.records, each.batches, each.finding_count) for each in own.partitions],
                    found,
                )

    def _streamed(self, spark: "SparkSession", path: str, options: Mapping[str, str]) -> list[Any]:
        from pyspark.errors import StreamingQueryException

        for left in reversed(range(STARTS)):
            try:
                return self._streamed_once(spark, path, options)
            except StreamingQueryException as error:
                if not left or NOT_STARTED not in str(error):
                    raise
                self.suite.note(f"Spark gave up waiting for a Python of its own: {NOT_STARTED}")
        raise AssertionError("the last start neither returned nor raised")

    def _streamed_once(self, spark: "SparkSession", path: str, options: Mapping[str, str]) -> list[Any]:
        stream = spark.readStream.format("ottla").option("topic", TOPIC).option("startingOffsets", "earliest")
        query = (
            stream.options(**options)
            .load(path)
            .writeStream.format("memory")
            .queryName("found")
            .option("checkpointLocation", str(self.work / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        return _rows(spark.table("found"))

    def faults(self, _server: S3Server, proxy: FaultyProxy) -> None:
        """Faults of each kind, and all together: the same rows, or an error; here there must be none."""
        from ottla.pipeline.cli import main

        expected = _printed(main, str(self.big), "big", [])
        out = str(self.work / "faulty")
        for name in (*FAULTS, "all"):
            proxy.faults = dict.fromkeys(FAULTS, SHARE / 2) if name == "all" else {name: SHARE}
            proxy.forget()
            found = _printed(main, f"s3://{BUCKET}/big", "big", _as_arguments(_fs(proxy)))
            self.suite.equal(f"{name}: rows", expected, found)
            arguments = [
                "snapshot",
                f"s3://{BUCKET}/big",
                "--topic",
                "big",
                "--out",
                out,
                "--overwrite",
                "--master",
                "none",
                "--quiet",
            ]
            self.suite.equal(f"{name}: snapshot", 0, main([*arguments, *_as_arguments(_fs(proxy))]))
            happened = dict(proxy.happened)
            wanted = FAULTS if name == "all" else (name,)
            self.suite.check(f"{name}: it happened", any(happened.get(each) for each in wanted), happened)
            proxy.faults = {}
            self.suite.equal(f"{name}: the snapshot's keys", _keys(self.big), _stored_keys(out))
        self.suite.note(f"faults of the last run: {happened}")

    def refused(self, server: S3Server, proxy: FaultyProxy) -> None:
        """Check that a user's mistake gets one line, within seconds."""
        proxy.region = REGION
        there, good = f"s3://{BUCKET}/small", _fs(proxy)
        away = {**good, "s3.endpoint_override": "http://127.0.0.1:1"}
        unknown = {**good, "s3.endpoint_override": "http://no-such-host.invalid:9000"}
        own = dict(server.environment)
        none = {name: "" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        cases: tuple[tuple[str, str, Mapping[str, str], Mapping[str, str], int, str], ...] = (
            ("nothing is wrong", there, good, own, 0, ""),
            ("a wrong key", there, good, {**own, "AWS_ACCESS_KEY_ID": "AKIANOBODY"}, 1, "rejects the credentials"),
            ("a wrong secret", there, good, {**own, "AWS_SECRET_ACCESS_KEY": "hush"}, 1, "rejects the credentials"),
            ("no credentials", there, good, {**own, **none}, 1, "credentials"),
            ("a wrong bucket", "s3://lgos/small", good, own, 1, "bucket not found"),
            ("a wrong prefix", f"s3://{BUCKET}/smal", good, own, 1, "is not a directory"),
            ("a wrong region", there, {**good, "s3.region": "us-east-1"}, own, 1, "another region"),
            ("no server", there, away, own, 6, "no server answers there"),
            ("no host", there, unknown, own, 6, "no server answers there"),
            ("a secret option", there, {"s3.secret_key": "hush"}, own, 1, "expected no secret"),
            ("a secret address", "s3://key:hush@logs/x", good, own, 1, "no credentials in an address"),
        )  # fmt: skip
        usual_s: float | None = None
        for what, address, fs, environment, code, said in cases:
            began_s = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "ottla.pipeline.cli",
                "verify",
                address,
                "--topic",
                TOPIC,
                "--master",
                "none",
            ]
            done = subprocess.run(
                [*command, *_as_arguments(fs)],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.monotonic() - began_s
            lines = done.stderr.splitlines()
            is_one_line = len(lines) == (1 if code else 0) and (not code or said in lines[0])
            self.suite.check(
                f"{what}: one line, exit code {code}",
                is_one_line and done.returncode == code,
                f"{done.returncode}, {lines}",
            )
            usual_s = seconds if usual_s is None else usual_s
            self.suite.check(
                f"{what}: within seconds",
                seconds - usual_s < SECONDS_MAX,
                f"{seconds:.1f} s, {usual_s:.1f} s where nothing is wrong",
            )
            self.suite.check(
                f"{what}: no secret is said", not any(each in done.stderr for each in ("hush", server.secret))
            )
        for name in ("compact", "plan", "install", "status"):
            topic = [] if name in ("install", "status") else ["--topic", TOPIC]
            command = [sys.executable, "-m", "ottla.pipeline.cli", name, there, *topic, "--master", "none"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            is_said = len(done.stderr.splitlines()) == 1 and "needs hard links" in done.stderr.replace(
                "takes needs", "needs"
            )
            self.suite.check(f"{name} needs links", done.returncode == 1 and is_said, done.stderr.strip())
        proxy.region = None

    def many(self, _server: S3Server, proxy: FaultyProxy) -> None:
        """Check that a log of 10 000 segments is planned from its listings."""
        from ottla.pipeline.objects.addresses import parse_fs_options
        from ottla.pipeline.source.reading import LogReader
        from ottla.pipeline.stores.reading_files import ReadingFiles
        from ottla.pipeline.stores.stores import opened_store
        from ottla.storage.disk.paths import TopicPartition

        began_s, files = time.monotonic(), ReadingFiles(parse_fs_options(_fs(proxy)))
        with LogReader(opened_store(f"s3://{BUCKET}/many", files), committed=True).opened(
            TopicPartition(TOPIC, 0)
        ) as log:
            tasks = list(log.tasks(log.start_offset, log.end_offset, max_bytes=1 << 30, since_ms=None))
        seconds = time.monotonic() - began_s
        self.suite.equal("a task a segment", SEGMENTS, len(tasks))
        self.suite.check("few requests", proxy.requests.total() < 200, dict(proxy.requests))
        self.suite.note(
            f"{SEGMENTS} segments are planned in {seconds:.1f} s, {proxy.requests.total()} requests, {proxy.bytes_out} bytes"
        )

    def costs(self, _server: S3Server, proxy: FaultyProxy) -> None:
        """Count the requests and bytes for a GB of log."""
        from ottla.pipeline.cli import main

        size_bytes = sum(path.stat().st_size for path in (self.big / "big-0").glob("*.log"))
        fs = _as_arguments(_fs(proxy))
        there = f"s3://{BUCKET}/big"
        commands = {
            "verify": ["verify", there, "--topic", "big", "--master", "none", *fs],
            "snapshot": [
                "snapshot",
                there,
                "--topic",
                "big",
                "--out",
                str(self.work / "costs"),
                "--master",
                "none",
                *fs,
            ],
        }
        for name, command in commands.items():
            proxy.forget()
            began_s = time.monotonic()
            self.suite.equal(f"{name} of {size_bytes >> 20} MiB", 0, main(command))
            gigabytes, requests = size_bytes / 1e9, dict(proxy.requests)
            self.suite.check(
                f"{name}: under 1 000 requests a GB", proxy.requests.total() / gigabytes < 1_000 or self.quick, requests
            )
            self.suite.note(
                f"{name}: {proxy.requests.total() / gigabytes:.0f} requests a GB ({requests}), {proxy.bytes_out / size_bytes:.2f} of the"
                f" log's bytes, {time.monotonic() - began_s:.0f} s"
            )


def _fs(proxy: FaultyProxy) -> dict[str, str]:
    return {"s3.endpoint_override": f"http://{proxy.address}", "s3.region": REGION}


def _as_arguments(fs: Mapping[str, str]) -> list[str]:
    return [each for name, value in fs.items() for each in ("--fs-option", f"{name}={value}")]


@contextmanager
def _session() -> Iterator["SparkSession"]:
    from ottla.pipeline import session

    spark = session("spark-objects", master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def _rows(frame: "DataFrame") -> list[Any]:
    return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in frame.collect())


def _printed(main: Any, path: str, topic: str, more: list[str]) -> tuple[int, int, str]:
    """Exit code, lines and a digest of what `read` prints."""
    import hashlib
    from contextlib import redirect_stdout

    class Digest:
        def __init__(self) -> None:
            self.lines, self.sha = 0, hashlib.sha256()

        def write(self, text: str) -> int:
            self.lines += text.count("\n")
            self.sha.update(text.encode())
            return len(text)

        def flush(self) -> None: ...

    out = Digest()
    with redirect_stdout(out):
        code = main(["read", path, "--topic", topic, "--master", "none", *more])
    return code, out.lines, out.sha.hexdigest()


def _keys(data_dir: Path) -> int:
    from ottla.pipeline.snapshot.snapshot import take_snapshot
    from ottla.pipeline.stores.stores import opened_store

    with tempfile.TemporaryDirectory() as folder:
        return take_snapshot(opened_store(str(data_dir)), "big", f"{folder}/out", now_ms=1).keys


def _stored_keys(out: str) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(out, format="parquet").count_rows())


def _write_big(data_dir: Path, size_bytes: int) -> None:
    from ottla.storage.disk.paths import TopicPartition

    from ..support.logs.batches import RECORDS_A_BATCH, make_batches
    from ..support.logs.big_log import write_big_log

    rng = random.Random(1)
    batches = make_batches(lambda _: rng.randrange(size_bytes // 2_000), value_bytes=1_000, size_bytes=size_bytes)
    write_big_log(
        data_dir,
        TopicPartition("big", 0),
        batches,
        records_a_batch=RECORDS_A_BATCH,
        segment_bytes=size_bytes // 2,
    )


def _write_many(small: Path, data_dir: Path, count: int) -> None:
    """Write `count` segments, each the first batch of the small log: the CRC does not cover the base offset."""
    from ottla.storage.disk import paths
    from ottla.storage.disk.checkpoints import OffsetCheckpoint
    from ottla.storage.disk.os_files import OsFiles
    from ottla.storage.disk.paths import TopicPartition

    shutil.copytree(
        small,
        data_dir,
        ignore=shutil.ignore_patterns("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "orders-1"),
    )
    data = (small / f"{TOPIC}-0" / f"{0:020}.log").read_bytes()
    length, delta = struct.unpack_from(">i", data, 8)[0] + 12, struct.unpack_from(">i", data, 23)[0]
    directory = data_dir / f"{TOPIC}-0"
    for number in range(count):
        base = number * (delta + 1)
        (directory / f"{base:020}.log").write_bytes(struct.pack(">q", base) + data[8:length])
        for kind in (".index", ".timeindex"):
            (directory / f"{base:020}{kind}").touch()
    (directory / f"{base:020}.snapshot").write_bytes(_NO_PRODUCERS)
    end = count * (delta + 1)
    OffsetCheckpoint(OsFiles(), str(data_dir / paths.RECOVERY_POINT_CHECKPOINT)).write({TopicPartition(TOPIC, 0): end})


def _no_producers() -> bytes:
    from ottla.storage.produce import producer_snapshots

    return producer_snapshots.encode([])


_NO_PRODUCERS = _no_producers()


if __name__ == "__main__":
    sys.exit(run_suite("spark_objects", body, doc=__doc__, more_arguments=arguments))
