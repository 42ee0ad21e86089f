"""The contents of `__share_group_state` files: printed by Apache Kafka's `kafka-dump-log`, and combined without Ottla's code.

A snapshot has the whole state of a share partition. An update has the changes since, offset by offset: the later one counts.
Records before the start offset have no state. A tombstone deletes it.
"""

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...support.brokers.apache_kafka import tool
from ...support.brokers.ottla_process import ottla_command
from ..dump_log import DUMP_LOG

TOPIC = "__share_group_state"
LINE = re.compile(r"^\| offset: (\d+) .*? key: (\{.*?\}) payload: (.*)$")
SNAPSHOT, UPDATE = "0", "1"
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
NAMES = {AVAILABLE: "available", 1: "acquired", ACKNOWLEDGED: "acknowledged", 3: "archiving", ARCHIVED: "archived"}
NOT_SAID = -1


class Place(NamedTuple):
    """A share partition; the topic's id as Kafka writes it."""

    group: str
    topic_id: str
    partition: int


class Entry(NamedTuple):
    """A record; `said` is None for a tombstone."""

    offset: int
    kind: str
    place: Place
    said: dict[str, Any] | None


@dataclass
class State:
    """The state of one share partition: offset -> delivery state and count, for records that are not new."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_final(self, offset: int) -> bool:
        return offset < self.start or self.records.get(offset, (AVAILABLE, 0))[0] in (ACKNOWLEDGED, ARCHIVED)


def logs_of(data: Path) -> list[Path]:
    return sorted(path for path in data.glob(f"{TOPIC}-*/*.log") if path.stat().st_size)


def dumped_by_kafka(logs: list[Path]) -> dict[Path, list[Entry]]:
    """Return the records of each log, in order; RuntimeError with the tool's message if it does not read all of them."""
    done = tool(DUMP_LOG, "--share-group-state-decoder", "--files", ",".join(map(str, logs)))
    found: dict[Path, list[Entry]] = {}
    entries: list[Entry] = []
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            entries = found[Path(line.removeprefix("Dumping "))] = []
        elif line.startswith("| offset: "):
            entries.append(_entry(line))
    if done.returncode or done.stderr.strip() or [*found] != logs:
        raise RuntimeError(f"{logs}: {done.stderr or done.stdout}")
    return found


def _entry(line: str) -> Entry:
    match = LINE.match(line)
    if match is None:
        raise RuntimeError(f"kafka-dump-log: {line}")
    key, payload = json.loads(match[2]), match[3]
    of = key["data"]
    said = None if payload == "<DELETE>" else json.loads(payload)["data"]
    return Entry(int(match[1]), key["type"], Place(of["groupId"], of["topicId"], of["partition"]), said)


def dumped_by_ottla(logs: list[Path]) -> dict[Path, list[tuple[int, str]]]:
    """Like `dumped_by_kafka`: the offset of each record, and what `ottla dump-log` prints for it."""
    command = [*ottla_command(), "dump-log", "--print-data", *map(str, logs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{logs}: {done.stdout}{done.stderr}")
    found: dict[Path, list[tuple[int, str]]] = {}
    entries: list[tuple[int, str]] = []
    for line in done.stdout.splitlines():
        if (log := Path(line.removesuffix(":"))) in logs:
            entries = found[log] = []
        elif record := re.match(r"^ +offset (\d+)  .*?(share group .*)$", line):
            entries.append((int(record[1]), record[2]))
    return found


def in_ottlas_words(entry: Entry) -> str:
    """Return what `ottla dump-log` must print for a record that Apache Kafka printed as JSON."""
    of, said = entry.place, entry.said
    who = f"share group {of.group!r} topic {of.topic_id} partition {of.partition}"
    if said is None:
        return f"{who} deleted"
    batches = ", ".join(
        f"{each['firstOffset']}..{each['lastOffset']} {NAMES[each['deliveryState']]} {each['deliveryCount']}"
        for each in said["stateBatches"]
    )
    what = (
        f"snapshot {said['snapshotEpoch']}  state epoch {said['stateEpoch']}"
        if entry.kind == SNAPSHOT
        else f"update of snapshot {said['snapshotEpoch']}"
    )
    return (
        f"{who} {what}  leader epoch {said['leaderEpoch']}  start offset {said['startOffset']}"
        f"  delivery complete {said.get('deliveryCompleteCount', NOT_SAID)}  batches [{batches}]"
    )


def put_together(entries: Iterable[Entry]) -> dict[Place, State]:
    """Return the state of each share partition after these records, which are in the order of the log."""
    found: dict[Place, State] = {}
    for entry in entries:
        said = entry.said
        if said is None:
            found.pop(entry.place, None)
            continue
        complete = said.get("deliveryCompleteCount", NOT_SAID)
        if entry.kind == SNAPSHOT:
            state = State(said["stateEpoch"], said["leaderEpoch"], said["startOffset"], complete)
            found[entry.place] = state
        elif (known := found.get(entry.place)) is None:
            continue  # its snapshot has been pruned: a tombstone follows, or another snapshot
        else:
            state = known
            state.complete = complete
            if said["leaderEpoch"] != NOT_SAID:
                state.leader_epoch = said["leaderEpoch"]
            if said["startOffset"] != NOT_SAID:
                state.start = said["startOffset"]
        for each in said["stateBatches"]:
            for offset in range(each["firstOffset"], each["lastOffset"] + 1):
                state.records[offset] = each["deliveryState"], each["deliveryCount"]
        state.records = {offset: what for offset, what in state.records.items() if offset >= state.start}
    return found


def log_starts(data: Path) -> dict[str, int]:
    """Return partition of `__share_group_state` -> its log start offset, as `log-start-offset-checkpoint` has it."""
    checkpoint = data / "log-start-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    rows = (line.split() for line in lines)
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows if topic == TOPIC}
