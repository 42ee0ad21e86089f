"""The features that pipeline/README.md promises for Spark Connect, with a server in this process: `connected.py FOLDER`.

Prints a line of JSON for each check: [what, whether it holds, more]. The folder is empty at first.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.pipeline import jobs, latest, register
from ottla.pipeline.errors import UsageError
from ottla.pipeline.run.java import java_home
from ottla.pipeline.source.source import PUSHDOWN_CONF
from support.pipeline.stored_topic import TOPIC, stored_topic

FULL = {("a", "3"), ("c", "1"), ("z", "1"), ("d", "1"), ("a", "p1 again"), ("e", "1")}


def say(what: str, holds: bool, more: object = "") -> None:
    print(json.dumps([what, holds, str(more)]), flush=True)


def pairs(frame: object) -> set[tuple[str, str]]:
    return {(bytes(row.key).decode(), bytes(row.value).decode()) for row in frame.select("key", "value").collect()}  # type: ignore[attr-defined]


def main() -> None:
    folder = Path(sys.argv[1])
    data_dir = str(stored_topic(folder))
    os.environ["JAVA_HOME"] = str(java_home())
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    say("the session is one of Connect", "connect" in type(session).__module__, f"Spark {session.version}")
    session.conf.set(PUSHDOWN_CONF, "true")  # the option `pushdown` needs it on any session of a user
    register(session)
    register(session)
    say("register, twice", True)
    read = session.read.format("ottla").option("topic", TOPIC).load(data_dir)
    say("the format ottla", read.where("partition = 0 AND offset < 3").count() == 3)
    for what, options in {"latest=true": {}, "latest=true, filters pushed down": {"pushdown": "true"}}.items():
        frame = session.read.format("ottla").option("topic", TOPIC).option("latest", "true").options(**options)
        found = pairs(frame.load(data_dir))
        say(f"the format ottla, {what}", found == FULL, found ^ FULL)
    found = pairs(latest(session, data_dir, topic=TOPIC))
    say("latest", found == FULL, found ^ FULL)
    refusals: dict[str, Callable[[], object]] = {
        "compact": lambda: jobs.compact(session, data_dir, topic=TOPIC),
        "verify": lambda: jobs.verify(session, data_dir, topic=TOPIC),
        "snapshot": lambda: jobs.snapshot(session, data_dir, topic=TOPIC, out=str(folder / "x")),
        "check": lambda: jobs.check(session, data_dir),
        "applier": lambda: jobs.applier(session, topic=TOPIC, table="t", table_format="delta-rs", data_dir=data_dir),
    }
    for name, job in refusals.items():
        try:
            job()
        except UsageError as error:
            said = str(error)
            say(f"jobs.{name} says in a line what it needs", "Connect" in said and "\n" not in said, said)
        except Exception as error:  # noqa: BLE001 - any other error has no line of Ottla
            say(f"jobs.{name} says in a line what it needs", False, f"{type(error).__name__}: {error}"[:300])
        else:
            say(f"jobs.{name} says in a line what it needs", False, "it went on")
    session.stop()


if __name__ == "__main__":
    main()
