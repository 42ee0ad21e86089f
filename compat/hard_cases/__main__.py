"""Every hard case (`ottla cases`) consumed to its end by each client, each in a process of its own with a time limit.

Clients read from the start with both isolation levels, and from every existing offset (if there are billions, from next to each
record). Clients that support its protocol also read the group near the end of its epochs as a member.
"""

import json
import sys
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import free_port
from ..support.suite import NotRunError, Options, Suite, run_suite
from .clients import CLIENTS, PYTHON, Client, Outcome, run_reader

LEVELS = ("read_uncommitted", "read_committed")
IDLE_S, JOIN_IDLE_S = 3.0, 8.0
LIMIT_S, QUICK_LIMIT_S = 180.0, 60.0

FAULTS: dict[tuple[str, str], str] = {
    ("confluent-kafka", "group-epoch-near-its-end"): (
        "librdkafka takes the member id out of the heartbeat's answer for a text that ends with a zero byte; what follows is the"
        " epoch, whose first byte is zero below 2^24 only, so its further heartbeats name another member"
        " (rd_kafka_cgrp_handle_ConsumerGroupHeartbeat; not reported as far as we know)"
    ),
}
"""(client, case) -> what the client does wrong there, with the thread. It must: one that is put right fails the suite."""


@dataclass(frozen=True)
class Wanted:
    """One read, and a correct client's result."""

    what: str
    read: dict[str, Any]
    records: list[list[Any]]
    reaches_end: bool


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("Ottla, whose control API makes the cases")
    clients = PYTHON if options.quick else CLIENTS
    admin = f"127.0.0.1:{free_port()}"
    commands = {}
    for client in clients:
        try:
            commands[client] = client.make_ready()
        except NotRunError as missing:
            suite.skip(client.name, f"not run: needs {missing}")
    with OttlaProcess(profile="dev", keep=options.keep, arguments=("--admin", admin)) as broker:
        names = [each["name"] for each in call(admin, "GET", "/v1/cases")["cases"]]

        def run(pair: tuple[Client, dict[str, Any]]) -> tuple[list[Wanted], Outcome]:
            client, case = pair
            wanted = list(reads_of(case, client, quick=options.quick))
            asked = {"bootstrap": broker.bootstrap, "reads": [each.read for each in wanted]}
            return wanted, run_reader(commands[client], asked, QUICK_LIMIT_S if options.quick else LIMIT_S)

        # Each client has a topic of its own, as it must be the only member of the group that comes with a case.
        pairs = [
            (client, call(admin, "POST", f"/v1/cases/{name}", {"topic": f"{name}-{client.name}"}))
            for name in names
            for client in commands
        ]
        with ThreadPoolExecutor(3) as lanes:
            table: dict[str, dict[str, str]] = {}
            for (client, case), (wanted, outcome) in zip(pairs, lanes.map(run, pairs), strict=True):
                result = judge(suite, client, case, wanted, outcome)
                table.setdefault(case["case"], {})[client.name] = result
    print_table(suite, table)


def reads_of(case: dict[str, Any], client: Client, *, quick: bool) -> Iterable[Wanted]:
    start, end = case["start_offset"], case["end_offset"]
    for level in LEVELS:
        expected = [[each["offset"], each["key"], each["value"]] for each in case[level]]
        offsets = range(start, end + 1) if end < 100 else near([row[0] for row in expected], start, end)
        for offset in [start] if quick else offsets:
            read = {
                "topic": case["topic"],
                "level": level,
                "offset": offset,
                "end": end,
                "group": None,
                "idle_s": IDLE_S,
            }
            records = [row for row in expected if row[0] >= offset]
            reaches_end = client.has_position and (case["position"] == end or offset == end)
            yield Wanted(f"{level} from {offset}", read, records, reaches_end)
        if case["group_id"] is not None and client.has_new_groups:
            # Each member raises the group's epoch by one, and again when it leaves.
            read = {"topic": case["topic"], "level": level, "offset": 0, "end": end, "group": case["group_id"]}
            read["idle_s"] = JOIN_IDLE_S
            yield Wanted(f"{level} as a member of the group", read, expected, client.has_position)


def near(offsets: list[int], start: int, end: int) -> list[int]:
    return sorted({max(start, min(end, offset + by)) for offset in offsets for by in (-1, 0, 1)})


def judge(suite: Suite, client: Client, case: dict[str, Any], wanted: list[Wanted], outcome: Outcome) -> str:
    """Check one client and case; return its cell of the table."""
    wrong = [
        f"{each.what}: {problem}"
        for each, answer in zip(wanted, outcome.answers, strict=False)
        if (problem := problem_of(each, answer))
    ]
    if outcome.trouble:
        left = wanted[len(outcome.answers) :]
        wrong.append(f"{left[0].what if left else 'at its end'}: {outcome.trouble}")
    elif len(outcome.answers) < len(wanted):
        wrong.append(f"{len(outcome.answers)} of {len(wanted)} reads were answered")
    what = f"{client.name}, {case['case']}: {len(wanted)} reads"
    fault = FAULTS.get((client.name, case["case"]))
    if fault is None:
        suite.check(what, not wrong, "; ".join(wrong[:3]))
        return "wrong" if wrong else stands(case, outcome)
    if wrong:
        suite.skip(what, f"a fault of the client: {fault} ({wrong[0]})")
        return "fault"
    suite.check(f"{what}: still on the list of clients' faults", False, fault)
    return "put right"


def problem_of(wanted: Wanted, answer: dict[str, Any]) -> str:
    if answer["records"] != wanted.records:
        return f"read {answer['records']}, expected {wanted.records}"
    if wanted.reaches_end and not answer["at_end"]:
        return f"read all records, but stands at {answer['position']} of {wanted.read['end']}"
    return ""


def stands(case: dict[str, Any], outcome: Outcome) -> str:
    first = outcome.answers[0]
    return "ok" if first["at_end"] else f"ok, stands at {first['position']} of {case['end_offset']}"


def call(admin: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{admin}{path}", data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def print_table(suite: Suite, table: dict[str, dict[str, str]]) -> None:
    names = list(next(iter(table.values())))
    suite.note(f"| case | {' | '.join(names)} |")
    for case, results in table.items():
        suite.note(f"| {case} | {' | '.join(results[name] for name in names)} |")


if __name__ == "__main__":
    sys.exit(run_suite("hard_cases", body, doc=__doc__))
