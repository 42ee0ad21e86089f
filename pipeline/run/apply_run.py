"""`ottla-spark apply`: options in, a stream run, what it did printed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import UsageError, check_the_extra
from .engine import IN_PROCESS, Engine

if TYPE_CHECKING:
    from ..apply.query import ApplyJob

Say = Callable[[str], None]


def run(options: argparse.Namespace, say: Say) -> int:
    """Returns the exit code; refusals are raised."""
    check_the_extra()
    from ..apply.packages import EXTENSIONS
    from ..apply.query import apply

    job = job_of(options, say)
    if options.master == IN_PROCESS:
        raise UsageError("--master none: expected a master of Spark, which apply cannot do without")
    given = dict(options.conf)
    confs = {"spark.sql.shuffle.partitions": "8"}
    for name, value in EXTENSIONS.get(options.table_format, {}).items():
        confs[name] = value if name not in given or name != "spark.sql.extensions" else f"{given.pop(name)},{value}"
    engine = Engine(options.master, {**confs, **given}, say=say)
    try:
        with engine.session(f"apply {options.topic}") as session:
            done = apply(session, job)
    finally:
        engine.stop()
    if options.json:
        found = {"batches": done.batches, "records": done.records, "undecodable": done.undecodable}
        json.dump({"topic": job.topic, "table": job.table, **found}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        aside = f", {done.undecodable} of them put aside" if done.undecodable else ""
        print(f"{job.table}: {done.records} records of {job.topic} applied in {done.batches} batches{aside}")
    return 0


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
    return ApplyJob(
        topic=options.topic,
        table=options.table,
        table_format=options.table_format,
        kafka=kafka,
        data_dir=options.data_dir,
        key=spec("key"),
        value=spec("value"),
        creates=options.create,
        adds_columns=options.add_columns,
        keeps_deleted=options.keep_deleted,
        undecodable_to=options.undecodable_to,
        takes_losses=options.take_losses,
        topic_made_anew=options.topic_made_anew,
        max_offsets=options.max_offsets,
        every_s=options.every,
        say=say,
    )
