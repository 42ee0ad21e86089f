"""Tables of commands: each stays a table on a terminal of 80 or 100 columns, however long its names are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server.commands.frame.printing import ELLIPSIS, places, table
from support.broker.registry_calls import RegistryCalls
from support.commands.command_runs import run_command

LONG = "of-the-orders-of-all-shops-in-every-country-that-we-ship-to-from-the-warehouse-by-the-river-" + "n" * 120
COMPACTED, RETAINED, GROUP = f"a-{LONG}", f"b-{LONG}", f"g-{LONG}"

TABLES = {
    "admin/cases.py:_print_loaded": [f"cases load trailing-marker c-{LONG}"],
    "admin/compact.py:_print_compacted": [f"compact {COMPACTED}", f"compact {COMPACTED} --force"],
    "admin/compact.py:_print_retained": [f"retention {RETAINED}"],
    "admin/compact.py:_print_waited": [f"compact {COMPACTED} --wait"],
    "admin/explain.py:_print_key": [f"explain {COMPACTED} --key k"],
    "admin/faults.py:_print_all": ["faults list"],
    "admin/faults.py:_print_one": ["faults show 1"],
    "admin/nodes.py:_print_all": ["nodes list"],
    "admin/quotas.py:_print_all": [
        f"quotas set client-id=q-{LONG} request_percentage=33.333333333333336",
        "quotas list",
    ],
    "admin/seed.py:_print_created": ["seed {seed}"],
    "advise.py:_show": [f"advise {COMPACTED}"],
    "kafka/configs.py:_describe": [f"configs describe topic:{COMPACTED} --all"],
    "kafka/empty.py:run": [f"empty {COMPACTED} --tombstones"],
    "kafka/groups.py:_describe": [f"groups describe {GROUP}"],
    "kafka/groups.py:_list": ["groups list"],
    "kafka/groups.py:_reset": [f"groups reset {GROUP} --topic {COMPACTED} --to end"],
    "kafka/topics.py:_describe": [f"topics describe {COMPACTED}"],
    "kafka/topics.py:_list": ["topics list"],
    "kafka/topics_status.py:show_status": ["topics status", f"topics status {COMPACTED} {RETAINED}"],
    "schemas.py:_list": ["schemas list"],
    "status.py:_once": ["status"],
}
"""Functions that print tables -> command lines that call them."""


def test_every_function_that_prints_a_table_is_known() -> None:
    commands = Path(ottla.__file__).parent / "server" / "commands"
    found = set()
    for path in commands.rglob("*.py"):
        name = str(path.relative_to(commands))
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and name != "frame/printing.py":
                called = {
                    one.func.id
                    for one in ast.walk(function)
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
                }
                if called & {"show_rows", "show_table"}:
                    found.add(f"{name}:{function.name}")
    assert found - {"admin/asking.py:show_rows"} == set(TABLES)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Broker]:
    """Run two nodes, two data directories with long names, two similar topics, a group, a quota and a fault."""
    paths = [str(tmp_path_factory.mktemp(f"{name}-{LONG[:90]}")) for name in "de"]
    quiet: dict[str, str | int | float | bool] = {
        "log.cleaner.backoff.ms": 3_600_000,
        "log.retention.check.interval.ms": 3_600_000,
        "log.dirs": ",".join(paths),
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        ottla.Broker(nodes=2, admin=0, schema_registry=True, overrides=quiet) as broker,
    ):
        patch.setenv("OTTLA_ADMIN", str(broker.admin))
        patch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("OTTLA_SCHEMA_REGISTRY", str(broker.schema_registry))
        broker.create_topic(COMPACTED, 12, {"cleanup.policy": "compact"})
        broker.create_topic(RETAINED, 2, {"retention.ms": 1_000, "max.compaction.lag.ms": 2**63 - 1})
        for partition in range(12):
            for key, value in (("k", "1"), ("k", "2"), ("b", None)):
                broker.produce(COMPACTED, value, key=key, partition=partition)
        broker.produce(RETAINED, "x", partition=1, timestamp_ms=0)
        for number in range(3):
            RegistryCalls.of(broker).register(f"{LONG}-{number}", '"int"')
        broker.commit(GROUP, {(COMPACTED, number): 1 for number in range(12)})
        run_command(*TABLES["admin/quotas.py:_print_all"][0].split())
        assert not run_command(
            "faults", "add", "--api", "Fetch", "--topic", RETAINED, "--error", "NOT_LEADER_OR_FOLLOWER"
        ).code
        assert not run_command(
            "compact", COMPACTED, "--force"
        ).code  # otherwise a waiting command waits for the active segment
        yield broker


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("line", [line for lines in TABLES.values() for line in lines])
def test_a_table_keeps_its_columns_aligned(running: ottla.Broker, tmp_path: Path, line: str, columns: int) -> None:
    running.produce(RETAINED, "x", partition=1, timestamp_ms=0)
    seed = tmp_path / "seed.yaml"
    seed.write_text(f"topics: {{s{columns}-{LONG}: {{partitions: 3, records: [{{key: a, value: b, repeat: 100}}]}}}}")
    line = line.format(seed=seed).replace(f" c-{LONG}", f" c{columns}-{LONG}")
    done = run_command(*line.split(), columns=columns)
    assert (done.code, done.err) == (0, ""), done.err
    lines = done.out.splitlines()
    at, header = next((at, one) for at, one in enumerate(lines) if re.fullmatch(r" *[A-Z][A-Z ]+", one))
    assert [one for one in lines[at:] if places(one) > columns] == []
    assert ELLIPSIS not in header
    cells = []
    for one in lines[at + 1 :]:
        if not one or re.match(r"  (?! *-?\d)", one):
            break
        assert not re.search(rf"\d {{0}}{ELLIPSIS}(\s|$)", one), "a number that is cut is another number"
        cells.append(one)
    assert len(cells) >= 1
    assert len(set(cells)) == len(cells), "rows of one table are told from each other"


def test_numbers_stay_complete_when_texts_are_shortened() -> None:
    header = ("PARTITION", "FIRST DIRTY", "LOG END", "RECORDS", "ELIGIBLE", "POLICY")
    row = (f"{LONG}-17", 123_456_789_012, 9_223_372_036, "12345 -> 678", "2026-11-28 07:37:18", "compact")
    lines = list(table(header, [row], ["why"], width=80))
    assert max(map(places, lines)) <= 80
    assert lines[1].split()[1:] == [
        "123456789012",
        "9223372036",
        "12345",
        "->",
        "678",
        "2026-11-28",
        "07:37:18",
        "compact",
    ]
    assert lines[1].split()[0].startswith("of-") or ELLIPSIS in lines[1].split()[0]
    assert lines[2].endswith("why")
