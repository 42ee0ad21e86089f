"""Events during an install through a server: the driver pauses before its second group."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition

from ..support.clients.steps import admin, create_topic, set_topic_configs
from ..support.suite import Suite
from .ground import BATCHES, PATIENCE_S, Driver, Ground, Steps, Values, environment, key_of
from .served import Served
from .traffic import LIVE_KEYS, Traffic, values_of

CLEANER_ON = {"log_cleaner_backoff_ms": "1", "log_retention_check_interval_ms": "100"}
"""The cleaner starts at once if a log is dirty enough; the topic's dirty ratio of 1 means that it is not."""


@dataclass(frozen=True)
class Scene:
    """One event during the install.

    Attributes:
        act: The event, carried out while the driver pauses.
        codes: Exit codes that the driver may end with.
        start: The first offset whose record must survive.
        old_values: Whether values from before the install must survive.
        cleans: Whether the server's own cleaner works on the topic at some time.
        alone: Whether no other client writes or reads during the install.
        values: The final values of a consumer, if they are those of another topic.
    """

    act: Callable[["Between"], None]
    codes: tuple[int, ...]
    start: int = 0
    old_values: bool = True
    cleans: bool = False
    alone: bool = False
    values: Values | None = None
    is_long: bool = False


class Between:
    """The state during the pause of the driver."""

    def __init__(self, ground: Ground, server: Served) -> None:
        self.ground, self.server, self.bootstrap = ground, server, server.bootstrap
        self.wrong: list[str] = []

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    def configure(self, **configs: str) -> None:
        set_topic_configs(self.bootstrap, "t", **configs)

    def delete_records(self, offset: int) -> None:
        self.configure(cleanup_policy="compact,delete", retention_ms="-1")
        client = admin(self.bootstrap)
        for done in client.delete_records([TopicPartition("t", 0, offset)]).values():
            done.result(30)

    def delete_topic(self) -> None:
        client = admin(self.bootstrap)
        for done in client.delete_topics(["t"]).values():
            done.result(30)

    def make_anew(self) -> None:
        """Replace the topic by one with the same sizes at the same offsets; only the values differ."""
        self.delete_topic()
        create_topic(
            self.bootstrap, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="1", segment_bytes="1048576"
        )
        from support.broker.conversation import produce
        from support.broker.raw_client import RawClient

        self.configure(internal_segment_bytes="4000")
        host, _, port = self.bootstrap.rpartition(":")
        with RawClient(host, int(port)) as client:
            for number in range(BATCHES):
                produce(client, "t", (key_of(number), anew(number)))

    def segments(self) -> list[list[int]]:
        found = self.server.status()["segments"]
        assert isinstance(found, list)
        return found

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(what)
            time.sleep(0.05)


def anew(number: int) -> str:
    return "".join(chr(ord(digit) + 32) for digit in f"{number}") * 500


def ask_the_cleaner(between: Between) -> None:
    before = between.segments()
    between.configure(min_cleanable_dirty_ratio="0")
    until = time.monotonic() + 1
    between.wait_for(lambda: time.monotonic() > until, "")
    there = [each for each in between.segments() if each in before]
    between.expect(there == before[: len(there)] and len(there) >= len(before) - 1, "the cleaner worked under a lease")
    between.expect(between.server.status()["cleaning"] == "paused", f"it is {between.server.status()['cleaning']}")


def roll(between: Between) -> None:
    count = len(between.segments()) + 2
    between.wait_for(lambda: len(between.segments()) >= count, "no segment was rolled")


def drive_too(between: Between) -> None:
    for arguments in ((), ("--admin", between.server.admin)):
        code, text = Driver("install", between.ground.data, *arguments).wait()
        between.expect(code == 2 and ("held by" in text or "already leased" in text), f"{arguments}: {code} {text}")


def outlive_the_lease(between: Between) -> None:
    last = between.segments()[3]  # of the second group
    between.configure(min_cleanable_dirty_ratio="0")
    between.wait_for(lambda: between.server.status()["lease_expires_ms"] is None, "the lease does not run out")
    between.wait_for(lambda: last not in between.segments(), "the cleaner does not go on")


def restart(between: Between) -> None:
    between.server.restart()


UPPER, INTO_SECOND = 23, 18
"""Offsets: where the plan ends, and within the second group's second segment."""

SCENES: Mapping[str, Scene] = {
    "records are deleted below the log's end": Scene(lambda it: it.delete_records(UPPER), (0, 4), start=UPPER),
    "records are deleted into the second group": Scene(lambda it: it.delete_records(INTO_SECOND), (0, 4), start=INTO_SECOND),
    "retention is over for what is compacted": Scene(
        lambda it: it.configure(cleanup_policy="compact,delete", retention_ms="3600000"), (0, 4), old_values=False
    ),
    "the topic is compacted no longer": Scene(
        lambda it: it.configure(cleanup_policy="delete", retention_ms="-1"), (4,)
    ),
    "the topic is deleted": Scene(Between.delete_topic, (4,), alone=True, values={}),
    "the topic is deleted and made anew": Scene(
        Between.make_anew,
        (4,),
        alone=True,
        values={key_of(number).encode(): anew(number).encode() for number in range(BATCHES)},
    ),
    "segments roll": Scene(roll, (0,)),
    "the server's cleaner is asked to clean": Scene(ask_the_cleaner, (0,), cleans=True),
    "another driver, and one without a server": Scene(drive_too, (0,)),
    "the server stops and starts": Scene(restart, (2, 4, 6)),
    "the driver outlives its lease, and the cleaner goes on": Scene(outlive_the_lease, (2, 4, 6), cleans=True, is_long=True),
}  # fmt: skip
_QUICK = ("records are deleted into the second group", "the topic is deleted and made anew")


def run(suite: Suite, ground: Ground, quick: bool) -> None:
    steps = Steps(ground.directory / "driver.steps")
    ground.restore()
    with Served(ground) as server:
        server.start()
        with environment(steps.environment(-1, 0)):
            Driver("install", ground.data, "--admin", server.admin).wait()
    calls = [number for number, name in enumerate(steps.names()) if name == "ask /v1/cleaning/install"]
    for name, scene in SCENES.items():
        if not quick or name in _QUICK:
            play(suite, ground, steps, calls[1], name, scene)
    if not quick:
        life_long(suite, ground)
        several_nodes(suite, ground)


def play(suite: Suite, ground: Ground, steps: Steps, at: int, name: str, scene: Scene) -> None:
    ground.restore()
    with Served(ground, **CLEANER_ON) as server:
        server.start()
        traffic = None if scene.alone else Traffic(server.bootstrap, compacted=scene.cleans)
        with environment(steps.environment(at, signal.SIGSTOP)):
            driver = Driver("install", ground.data, "--admin", server.admin)
        driver.wait_until_stopped()
        between = Between(ground, server)
        scene.act(between)
        code, text = driver.go_on()
        wrong = between.wrong + (traffic.finish() if traffic else [])
        if scene.values != {}:
            before: Values = {key_of(n).encode(): f"{n}".encode() * 500 for n in range(scene.start, BATCHES)}
            expected = traffic.newest(before) if traffic else scene.values
            found = values_of(server.bootstrap)
            if not scene.old_values:
                live: set[bytes | None] = {each.encode() for each in LIVE_KEYS}
                found, expected = ({key: each[key] for key in live} for each in (found, expected or {}))
            if found != expected:
                wrong.append("newest values are lost")
            if scene.cleans:
                between.wait_for(lambda: server.status()["cleaning"] == "not held", "it stays held")
        if code not in scene.codes:
            wrong.append(f"exit code {code}")
        suite.check(
            f"{name} during the install: exit code {code}, nothing is lost", not wrong, f"{wrong or ''} {text[-150:]}"
        )


def life_long(suite: Suite, ground: Ground) -> None:
    """Plan and install in turns by commands alone, with clients all the time."""
    ground.restore()
    shutil.rmtree(ground.beside)
    wrong, told = list[str](), list[str]()
    with Served(ground) as server:
        server.start()
        set_topic_configs(server.bootstrap, "t", internal_segment_bytes="100000")  # a few, not thousands
        traffic = Traffic(server.bootstrap, compacted=True)
        topic = (ground.data, "--topic", "t")
        for _ in range(3):
            time.sleep(2)
            for command in (
                ("plan", *topic),
                ("compact", *topic, "--resume"),
                ("install", *topic, "--admin", server.admin),
            ):
                code, text = Driver(*command).wait()
                if code != 0:
                    wrong.append(f"{command[0]}: {code} {text}")
            told.append(text.partition("segments in")[2])
            code, text = Driver("status", ground.data, "--json").wait()
            newest = json.loads(text)["plans"][-1]["plan_id"]
            code, text = Driver("verify", ground.data, "--plan", newest, "--drop-originals").wait()
            if code != 0:
                wrong.append(f"verify: {code} {text}")
        wrong += traffic.finish()
        if values_of(server.bootstrap) != traffic.newest(ground.values):
            wrong.append("newest values are lost")
        server.kill()
        server.start()
        if values_of(server.bootstrap) != traffic.newest(ground.values):
            wrong.append("newest values are lost by a kill after the last install")
    suite.check(
        f"three times plan, compact, install, verify under {traffic.count} records written",
        not wrong,
        f"{wrong or ''} {told}",
    )


def several_nodes(suite: Suite, ground: Ground) -> None:
    """Check nodes with one store: an install serves all, whichever leads, and while one is stopped."""
    ground.restore()
    wrong = list[str]()
    with Served(ground, 3) as server:
        server.start()
        traffic = Traffic(",".join(server.addresses))
        code, text = Driver("install", ground.data, "--admin", server.admin, "--max-groups", "1").wait()
        leader = next(iter(admin(server.bootstrap).list_topics("t").topics["t"].partitions.values())).leader
        server.stop_node(leader)
        code_2, text = Driver("install", ground.data, "--admin", server.admin).wait()
        server.start_node(leader)
        wrong += traffic.finish()
        if (code, code_2) != (0, 0):
            wrong.append(f"exit codes {code}, {code_2}: {text}")
        for address in server.addresses:
            if values_of(address) != traffic.newest(ground.values):
                wrong.append(f"newest values are lost at {address}")
    logs = [path for path in Path(ground.directory).glob("data*/**/t-0") if path.is_dir()]
    suite.check(
        f"three nodes, one store: half with all nodes, half while the leader (node {leader}) is stopped; one directory",
        not wrong and len(logs) == 1,
        wrong or text,
    )
