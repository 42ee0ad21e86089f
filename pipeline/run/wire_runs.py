"""`ottla-spark verify --bootstrap`: turns options into a question and answers it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import UsageError
from .job_plans import Job
from .requirements import check_requirements

if TYPE_CHECKING:
    from ..wire.verify_wire import WireQuestion
    from ..wire.wire_report import WireReport

OF_THE_WIRE = (
    "bootstrap", "against_topic", "command_config", "against_command_config", "headers", "every_version", "clean_end",
    "no_transactions", "cleaned_within",
)  # fmt: skip
_OF_DIRECTORIES = {
    "data_dir": "DATA_DIR", "plan_id": "--plan", "drop_originals": "--drop-originals", "configs": "--config",
}  # fmt: skip
_OF_TWO_TOPICS = ("against_command_config", "headers", "every_version")
_OF_ONE_TOPIC = ("clean_end", "no_transactions", "cleaned_within")


def verify(job: Job, options: argparse.Namespace) -> WireReport:
    """Judge a topic, or two. Errors are raised; findings are in the report."""
    from ..wire.verify_wire import verify_wire

    asked = question(options)
    if job.engine.is_in_process:
        raise UsageError("--bootstrap: expected a Spark master, as Spark's connector reads topics, found --master none")
    check_requirements(["kafka"], options.conf)
    with job.engine.session(f"verify {asked.topic} at {asked.cluster.bootstrap}") as spark:
        return verify_wire(spark, asked, now_ms=job.now_ms())


def question(options: argparse.Namespace) -> WireQuestion:
    """Return the question that the options describe.

    Raises:
        UsageError: Options do not go together.
        OSError: A file of options cannot be read.
    """
    from ..wire.cluster import WireCluster, read_command_config
    from ..wire.verify_wire import WireQuestion, clean_end_of

    for name, option in _OF_DIRECTORIES.items():
        if getattr(options, name):
            raise UsageError(f"--bootstrap: expected no {option} with it")
    if options.topic is None or "," in options.topic:
        raise UsageError(f"--bootstrap: expected --topic with the name of one topic, found {options.topic or 'none'}")
    config = {} if options.command_config is None else read_command_config(options.command_config)
    other = None
    if options.against is not None:
        path = options.against_command_config
        other = WireCluster(options.against, config if path is None else read_command_config(path))
    is_one = options.against is None and options.against_topic is None
    for name in _OF_TWO_TOPICS if is_one else _OF_ONE_TOPIC:
        if _is_given(options, name):
            where = "only with --against or --against-topic" if is_one else "only for one topic by itself"
            raise UsageError(f"{_option(name)} is {where}")
    clean_end = None
    if options.clean_end is not None:
        try:
            clean_end = clean_end_of(options.clean_end)
        except ValueError:
            raise UsageError(
                f'--clean-end: expected an offset, or {{"0": offset, …}}, found {options.clean_end!r}'
            ) from None
    return WireQuestion(
        cluster=WireCluster(options.bootstrap, config),
        topic=options.topic,
        partition=options.partition,
        against=other,
        against_topic=options.against_topic,
        headers=options.headers,
        every_version=options.every_version,
        clean_end=clean_end,
        no_transactions=options.no_transactions,
        cleaned_within_ms=options.cleaned_within,
    )


def refuse_without_bootstrap(options: argparse.Namespace) -> None:
    """Raise UsageError for options that only --bootstrap supports, and if neither a directory nor an address is given."""
    for name in OF_THE_WIRE:
        if _is_given(options, name):
            raise UsageError(f"{_option(name)}: expected --bootstrap with it")
    if options.data_dir is None:
        raise UsageError("verify: expected DATA_DIR or --bootstrap")
    if options.against is not None and options.plan_id is not None:
        raise UsageError("--against and --plan: expected one of them")


def _is_given(options: argparse.Namespace, name: str) -> bool:
    found = getattr(options, name)
    return found is not None and found is not False  # 0 is given


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
