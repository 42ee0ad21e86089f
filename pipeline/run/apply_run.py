"""`ottla-spark apply`: options in, a stream run."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from ..apply.packages import EXTENSIONS
from ..errors import UsageError
from .engine import IN_PROCESS, Engine
from .progress import JobProgress, Say
from .requirements import check_requirements

if TYPE_CHECKING:
    from ..apply.applier import Applied
    from ..apply.query import ApplyJob


def run(options: argparse.Namespace, say: Say, progress: JobProgress) -> tuple[ApplyJob, Applied]:
    """Run the stream that the options describe, and return the job and its result. Errors are raised."""
    source = "kafka" if options.data_dir is None else "ottla"
    decoders = [each.removeprefix("debezium-") for each in (options.key_format, options.value_format)]
    check_requirements([options.table_format, source, *decoders], options.conf)
    from ..apply.query import apply
    from ..spark.tasks import running_tasks

    job = job_of(options, say)
    if options.master == IN_PROCESS:
        raise UsageError("--master none: expected a Spark master, as apply needs Spark")
    given = dict(options.conf)
    confs = {"spark.sql.shuffle.partitions": "8"}
    for name, value in EXTENSIONS.get(options.table_format, {}).items():
        confs[name] = value if name not in given or name != "spark.sql.extensions" else f"{given.pop(name)},{value}"
    engine = Engine(options.master, {**confs, **given}, say=say, progress=progress)
    try:
        with engine.session(f"apply {options.topic}") as session, progress.watching(options.topic) as watch:
            watch.running = lambda: running_tasks(session)
            return job, apply(session, job)
    finally:
        engine.stop()


def job_of(options: argparse.Namespace, say: Say) -> ApplyJob:
    """
    Raises:
        UsageError: A file of client options has no properties.
        OSError: It cannot be read.
    """
    from ..apply.formats import FormatSpec
    from ..apply.query import ApplyJob
    from ..wire.cluster import client_options

    def spec(what: str) -> FormatSpec:
        framing = getattr(options, f"{what}_framing")
        return FormatSpec(
            getattr(options, f"{what}_format"),
            what,
            schema=getattr(options, f"{what}_schema"),
            message=getattr(options, f"{what}_message"),
            registry=options.registry,
            is_framed=None if framing is None else framing == "confluent",
        )

    kafka = client_options(options.kafka_config, "--kafka-config", say)
    kafka = {} if options.bootstrap is None else {**kafka, "bootstrap.servers": options.bootstrap}
    same = {each.name: getattr(options, each.name) for each in fields(ApplyJob) if hasattr(options, each.name)}
    return ApplyJob(**same, kafka=kafka, key=spec("key"), value=spec("value"), say=say)
