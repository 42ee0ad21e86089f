"""Timers of the broker under a wall clock that is set by an hour, in both directions: none fires earlier or later."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.server.broker.background_jobs import TICK_MS, BackgroundJobs
from ottla.server.handlers import fetch
from ottla.server.partitions.waits import FetchWaits
from ottla.server.runtime.clock import Clock
from ottla.server.runtime.gc_policy import GcPolicy
from ottla.storage.disk.os_files import OsFiles
from support.broker.broker_timers import BROKER_TIMERS, BrokerTimer, fill
from support.broker.conversation import fetch_request
from support.broker.served import serving
from support.broker.steppable_wall import WALL_STEPS_MS, SteppableWall, virtual_ms
from support.groups.coordinator_timers import COORDINATOR_TIMERS, Timer
from support.noted import each_case
from support.sizes import size

# Coordinators


@each_case("step_ms", WALL_STEPS_MS.values(), ids=WALL_STEPS_MS.keys())
@each_case("timer", COORDINATOR_TIMERS.values(), ids=COORDINATOR_TIMERS.keys())
def test_a_coordinators_timer_ends_in_time(timer: Timer, step_ms: int) -> None:
    last_ms = timer.delay_ms - 1
    for set_after_ms in size((last_ms if step_ms > 0 else 0,), (0, 1, timer.delay_ms // 2, last_ms)):
        world, is_over = timer.begin()
        world.advance(set_after_ms)
        world.set_wall(step_ms)
        world.advance(timer.delay_ms - 1 - set_after_ms)
        assert not is_over(), f"too early: set after {set_after_ms} ms"
        world.advance(1)
        assert is_over(), f"too late: set after {set_after_ms} ms"


@each_case("timer", COORDINATOR_TIMERS.values(), ids=COORDINATOR_TIMERS.keys())
def test_a_coordinators_timer_ignores_steps_of_the_wall_clock(timer: Timer) -> None:
    world, is_over = timer.begin()
    for part in range(8):
        world.set_wall((-1) ** part * (part + 1) * max(WALL_STEPS_MS.values()))
        world.advance((timer.delay_ms - 1) * (part + 1) // 8 - (timer.delay_ms - 1) * part // 8)
    assert not is_over()
    world.advance(1)
    assert is_over()


# The broker around them


@pytest.mark.parametrize("step_ms", WALL_STEPS_MS.values(), ids=WALL_STEPS_MS.keys())
@pytest.mark.parametrize("timer", BROKER_TIMERS.values(), ids=BROKER_TIMERS.keys())
async def test_a_brokers_timer_ends_in_time(timer: BrokerTimer, step_ms: int, tmp_path: Path) -> None:
    for set_after_ms in size((0 if step_ms > 0 else timer.delay_ms - 1,), (0, timer.delay_ms - 1)):
        data, wall = tmp_path / str(set_after_ms), SteppableWall(lambda: 0)
        clock = Clock(wall, lambda: 0)
        async with serving(data, OsFiles(), clock, **timer.overrides) as served, trio.open_nursery() as nursery:
            is_over = await timer.begin(served, data, nursery)
            await trio.testing.wait_all_tasks_blocked()
            clock.advance(set_after_ms)
            wall.step(step_ms)
            clock.advance(timer.delay_ms - 1 - set_after_ms)
            assert not await is_over(), f"too early: set after {set_after_ms} ms"
            clock.advance(1)
            with trio.fail_after(60):  # due work may be running in another thread
                while not await is_over():
                    await trio.sleep(0.001)
            nursery.cancel_scope.cancel()


class Recorded(BackgroundJobs):
    """A clock that notes when its jobs would run."""

    def __init__(self, clock: Clock, config: Any) -> None:
        logs: Any = SimpleNamespace(data_dirs=["/d"])
        unused: Any = None
        super().__init__(logs, unused, unused, unused, config, clock, unused)
        self.ran_ms: dict[str, list[int]] = {}

    async def _note(self, job: str) -> None:
        self.ran_ms.setdefault(job, []).append(virtual_ms())

    async def close_idle_connections(self) -> None:
        await self._note("idle connections")

    async def tick(self, data_dir: str | None = None) -> None:
        await self._note("tick")

    async def retain(self, data_dir: str | None = None) -> None:
        await self._note("retain")

    async def checkpoint_recovery_points(self, data_dir: str | None = None) -> None:
        await self._note("recovery points")

    async def checkpoint_log_starts(self, data_dir: str | None = None) -> None:
        await self._note("log starts")

    async def expire_producers(self) -> None:
        await self._note("producers")


@pytest.mark.parametrize("step_ms", WALL_STEPS_MS.values(), ids=WALL_STEPS_MS.keys())
async def test_background_jobs_keep_their_intervals(step_ms: int, autojump_clock: trio.testing.MockClock) -> None:
    intervals_ms = {
        "tick": TICK_MS,
        "idle connections": TICK_MS,
        "retain": 300_000,
        "recovery points": 60_000,
        "log starts": 90_000,
        "producers": 600_000,
    }
    config = SimpleNamespace(
        log_initial_task_delay_ms=30_000,
        log_retention_check_interval_ms=intervals_ms["retain"],
        log_flush_offset_checkpoint_interval_ms=intervals_ms["recovery points"],
        log_flush_start_offset_checkpoint_interval_ms=intervals_ms["log starts"],
        producer_id_expiration_check_interval_ms=intervals_ms["producers"],
    )
    wall = SteppableWall()
    jobs = Recorded(Clock(wall, virtual_ms), SimpleNamespace(current=config))
    start_ms = virtual_ms()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.run)
        for _ in range(40):
            await trio.sleep(31)
            wall.step(step_ms)
        nursery.cancel_scope.cancel()
    for job, interval_ms in intervals_ms.items():
        first_ms, *others_ms = jobs.ran_ms[job]
        assert first_ms - start_ms == pytest.approx(min(interval_ms, 30_000), abs=1)
        assert [later - earlier for earlier, later in pairwise(jobs.ran_ms[job])] == pytest.approx(
            [interval_ms] * len(others_ms), abs=1
        )
        assert virtual_ms() - jobs.ran_ms[job][-1] <= interval_ms + 1


@pytest.mark.parametrize(("idle_ms", "after_ticks"), [(1, [1, 2, 3]), (600_000, [30, 60, 90]), (-1, [])])
async def test_connections_are_checked_twenty_times_per_idle_period(idle_ms: int, after_ticks: list[int]) -> None:
    looked: list[int] = []

    class Looked(SimpleNamespace):
        def close_excess(self) -> None:
            pass

        async def close_idle(self, max_idle_ms: int) -> None:
            assert max_idle_ms == idle_ms
            looked.append(tick)

    unused: Any = None
    config: Any = SimpleNamespace(current=SimpleNamespace(connections_max_idle_ms=idle_ms))
    connections: Any = Looked()
    jobs = BackgroundJobs(unused, unused, unused, connections, config, Clock(), GcPolicy())
    for tick in range(1, 1 + max(after_ticks, default=100)):  # noqa: B007 -- noted by `close_idle`
        await jobs.close_idle_connections()
    assert looked == after_ticks


async def test_a_long_wait_checks_its_client_less_and_less_often(autojump_clock: trio.testing.MockClock) -> None:
    looked_s: list[float] = []
    begun_s = trio.current_time()
    client: Any = SimpleNamespace(
        check_peer=lambda: looked_s.append(round(trio.current_time() - begun_s)), on_more=lambda call: None
    )
    config = SimpleNamespace(current=SimpleNamespace(ottla_hold_heartbeats=False))
    ctx: Any = SimpleNamespace(client=client, services=SimpleNamespace(config=config))
    with FetchWaits().waiter(1, committed=False, is_alone=True) as waiter:
        assert not await fetch.wait_for(ctx, waiter, begun_s + 200)
    assert looked_s == [5, 15, 35, 75, 135, 195, 200]


async def test_a_waiting_fetch_is_answered_in_time_and_a_live_lease_stays(tmp_path: Path) -> None:
    wall = SteppableWall(lambda: 0)
    async with serving(tmp_path, OsFiles(), Clock(wall, lambda: 0)) as served:
        await fill(served)
        for step_ms in WALL_STEPS_MS.values():
            begun_s = trio.current_time()
            async with trio.open_nursery() as nursery:
                request = fetch_request("t", 3, max_wait_ms=30)
                nursery.start_soon(trio.to_thread.run_sync, partial(served.client.ask, request, version=12))
                while not served.broker.waits:
                    await trio.lowlevel.checkpoint()
                wall.step(step_ms)
            assert 0.03 <= trio.current_time() - begun_s < 5


# Complete tables

HANDED_ON = {
    "partitions/appends.py _flush_then": "tests of flushes that are refused for a while",
    "cleaning/cleaning.py _choose": "for the metric",
    "cleaning/leases.py _expire": "as `pause`",
    "cleaning/leases.py _swap": "as `clean` of clean_pass",
    "commands/admin/stopped.py _swap": "as above",
    "coordination/service.py _keep_time": "tests of GroupService",
    "coordination/service.py _reload": "tests of a disk without room",
    "coordination/service.py ensure_topic": "tests of GroupService: a disk that refused the topic",
    "groups/coordinator.py quiet": "the rest of a session that a heartbeat has just restarted",
    "groups/reconciled_protocol.py __init__": "",
    "groups/consumer/protocol.py unchanged": "as `heartbeat`",
    "groups/share/protocol.py unchanged": "as `heartbeat`",
    "groups/streams/protocol.py unchanged": "as `heartbeat`",
    "handlers/get_telemetry_subscriptions.py handle": "tests of Instances",
    "handlers/push_telemetry.py handle": "tests of Instances",
    "groups/consumer/protocol.py _note_unresolved": "tests of regular expressions that match too many topics",
    "groups/consumer/transition.py _is_time_to_resolve": "as `_resolve_regexes`",
    "groups/consumer/transition.py _take_target": "as `advance`",
    "groups/consumer/transition.py _take_topics": "as `advance`",
    "groups/streams/target_jobs.py __init__": "",
    "groups/streams/target_jobs.py _delay_is_over": "as `_keep`, whose next assignment it is",
    "groups/streams/protocol.py heartbeat": "as `_keep`",
    "groups/streams/protocol.py _description_wait": "tests of descriptions of topologies, whose wall clock stands still",
    "groups/streams/transition.py _take_target": "as `_keep`",
    "groups/streams/protocol.py preparing": "as `_keep`",
    "groups/service.py __init__": "",
    "sharing/state_service.py __init__": "",
    "groups/share/transition.py _take_target": "as `heartbeat`",
    "groups/share/transition.py _take_topics": "as `heartbeat`",
    "broker/background_jobs.py _repeat": "the jobs' intervals, above",
    "broker/background_jobs.py expire_producers": "tests of ProducerStates",
    "broker/background_jobs.py _tick": "segments, topics and flush.ms, above",
    "broker/failed_dirs.py run": "tests of failed data directories, whose clock stands still",
    "broker/metrics.py _cleaner_manager": "",
    "cleaning/log_moves.py __init__": "",
    "cleaning/log_moves.py _move": "what is left of a move is removed as a deleted topic is",
    "cleaning/log_moves.py _release": "as above",
    "cleaning/log_moves.py _settle": "tests of moves between data directories, whose clock stands still",
    "cluster/reassignments.py __init__": "",
    "cluster/reassignments.py _reconsider": "tests of reassignments, whose clock stands still",
    "cluster/reassignments.py _update_copied": "as above",
    "cluster/reassignments.py _complete_due": "as above",
    "cluster/reassignments.py _copied_bytes": "as above",
    "cluster/opening.py _complete": "as `promise`",
    "cluster/partition_logs.py fill": "as `promise`",
    "cluster/opening.py _open_store": "as `promise`; what an earlier run left to delete is due at once",
    "network/authentication/session.py get": "as `_begin`",
    "network/authentication/session.py _succeed": "for the metric",
    "security/sasl/jwks.py key": "tests of the keys that sign tokens",
    "security/sasl/jwks.py _due_ms": "as above",
    "security/sasl/jwks.py _refresh": "as above",
    "security/sasl/jwks.py _take": "as above",
    "handlers/share_fetch.py _acquire": "tests of share requests: what a member has comes back",
    "handlers/share_sessions.py _acknowledge_patiently": "while the share coordinator loads",
    "handlers/share_sessions.py _compute_update": "tests of share requests: a member may keep what it needs longer",
    "sharing/dead_letters.py _write_patiently": "tests of dead letters: a partition without leader",
    "sharing/leaders.py __init__": "as `_expire`",
    "sharing/leaders.py _expire": "tests of share requests: what a member has comes back",
    "sharing/loading.py _state_of": "while the share coordinator loads",
    "sharing/leaders.py _release": "while the share coordinator loads",
    "sharing/leaders.py locks_changed": "as `_expire`",
    "sharing/leaders.py run": "as `_expire`",
    "transactions/coordinator.py open_transactions": "shown: test_explaining",
    "transactions/completer.py _abort_all": "as `watch`",
    "transactions/completer.py _look_again": "as `watch`",
    "transactions/service.py __init__": "",
    "transactions/verification.py _begin": "tests of ProducerStates",
    "transactions/writes.py __init__": "as `check`",
    "broker/broker.py __init__": "",
    "handlers/throttled.py wrap_with_quotas": "tests of throttled requests",
    "network/connections.py _close_at": "tests of connection limits",
    "network/connections.py _refuse_later": "tests of connection limits",
    "network/connections.py _waited": "tests of connection limits",
    "quotas/clients.py __init__": "tests of client quotas",
    "quotas/clients.py _usage": "tests of client quotas",
    "quotas/clients.py mutations": "tests of client quotas",
    "quotas/clients.py mute": "tests of client quotas",
    "quotas/clients.py record": "tests of client quotas",
    "quotas/clients.py take_back": "tests of client quotas",
    "quotas/clients.py throttle_ms": "tests of client quotas",
    "quotas/clients.py used": "tests of client quotas",
    "quotas/clients.py throttled": "tests of client quotas",
    "quotas/clients.py use": "tests of client quotas",
    "quotas/connections.py __init__": "tests of connection rates",
    "quotas/connections.py arrivals": "tests of connection rates",
    "quotas/connections.py count_connection": "tests of connection rates",
    "quotas/connections.py rates": "tests of connection rates",
    "quotas/connections.py close_after_ms": "tests of connection rates",
    "quotas/connections.py refused_addresses": "tests of connection limits",
}
"""Other functions that use elapsed time, and the tests of each."""

THE_CLOCK = {"runtime/clock.py", "coordination/deadlines.py"}

WITH_STORED_TIMES = {
    "server/control/seed/values.py timestamp_of": "of records that a seed makes",
    "server/control/cases/load.py load_case": "of records that a hard case has",
    "server/groups/offset_commits.py prepare": "expiry of an offset, as old clients ask for it",
    "server/groups/consumer/protocol.py loaded": "age of what was written before",
    "server/groups/reconciled_protocol.py loaded": "age of what was written before",
    "server/groups/offset_table.py _is_expired": "offsets.retention.minutes",
    "server/cleaning/advice.py _remedies": "in words: how long it is until then",
    "server/cleaning/advice.py _rolls": "in words, as above",
    "server/cleaning/advice.py next_roll_sentence": "in words, as above",
    "server/sharing/share_states.py cold": "age of a snapshot, as its record says",
    "server/cluster/token_changes.py _sum": "expiry of a delegation token, as clients are told it",
    "server/security/sasl/oauthbearer.py _subject_and_times": "times that the issuer of a token wrote into it",
    "server/embedded/sasl.py token": "times that a test's issuer writes into a token",
    "server/security/sasl/logins.py lifetime_ms": "expiry of a token, as its issuer wrote it",
    "server/security/tokens.py is_over": "as above",
    "server/security/tls/dev_certificates.py read": "end of an authority, as its certificate has it",
    "server/sharing/loading.py _first_offset": "share.auto.offset.reset by_duration, to the timestamps of records",
    "server/transactions/coordinator.py open_transactions": "in words: the wall time of a deadline",
    "server/transactions/completer.py watch": "start of a transaction that was loaded",
    "server/transactions/coordinator.py expire": "transactional.id.expiration.ms",
    "server/transactions/listing.py select": "durations that a client asks for",
    "server/control/clock.py _roll_if_old": "when a segment got its first record; no timer asks",
    "server/page/views/faults.py view": "to the step that the page shows",
    "server/control/clock.py _check": "what a caller wants the clock to say",
    "server/control/clock.py set_to": "what a caller wants the clock to say",
    "server/commands/erase.py _waited": "when a record is gone at the latest, as a report has it",
    "storage/erasure/log_search.py _dated": "timestamps of records",
    "storage/erasure/record_fates.py _superseded": "timestamps of records",
    "storage/erasure/record_fates.py _tombstone": "delete horizons",
    "storage/advice/tallying.py __init__": "timestamps of records",
    "storage/cleaning/dirtiness.py is_any_reached": "delete horizons",
    "storage/filter/clean_rules.py __init__": "delete horizons",
    "storage/filter/clean_rules.py _take_control": "delete horizons",
    "storage/cleaning/dirtiness.py dirtiness_in_pieces": "timestamps of records",
    "storage/cleaning/dirtiness.py find_bound_in_pieces": "timestamps of records",
    "storage/cleaning/key_history.py _outlook": "delete horizons",
    "storage/cleaning/outlook.py _tried": "timestamps of records",
    "storage/cleaning/outlook.py due_at_in_pieces": "timestamps of records",
    "storage/segment/segment.py is_full_for": "segment.ms where records have no timestamps, as in Apache Kafka; an append asks, no timer",
    "storage/produce/producers.py _is_expired": "timestamps of records",
    "storage/produce/producers.py reset": "no comparison of times",
    "storage/produce/record_checks.py _errors_of_stamped": "timestamps of records",
    "storage/produce/record_checks.py _must_compare_timestamps": "timestamps of records",
    "storage/produce/record_checks.py _untimely": "timestamps of records",
    "storage/produce/record_checks.py _walk_if_forced": "timestamps of records",
    "storage/produce/record_checks.py timestamp_bounds": "timestamps of records",
    "storage/logs/retention.py deletable_segments": "timestamps of records",
    "storage/logs/retention.py may_have_deletable": "timestamps of records",
    "storage/topics/config.py aged_up_to_ms": "timestamps of records",
    "storage/cleaning/retries.py put_off": "the end of its own pause, which people are shown",
    "storage/cleaning/retries.py waiting": "the end of its own pause; a clock that is set back ends it",
}
"""Functions that add, subtract or compare the wall time, and the stored time that they use."""


# A source with such a use has one of these words.
ELAPSED = re.compile(r"elapsed_ms|(deadlines|clock)\W.*(start|sleep)", re.DOTALL)
WALL = re.compile("now_ms")
IMPORT = re.compile("import time|from time|datetime")


def test_every_function_that_uses_elapsed_time_is_in_a_table() -> None:
    found = {where.removeprefix("server/") for where in places("server", asks_for_elapsed_time, ELAPSED)}
    walked = {timer.where for timer in COORDINATOR_TIMERS.values()} | {timer.where for timer in BROKER_TIMERS.values()}
    assert {where for where in found if where.split()[0] not in THE_CLOCK} == walked | HANDED_ON.keys()


def test_wall_time_is_compared_only_with_stored_times() -> None:
    found = {*places("server", reckons_with_wall_time, WALL), *places("storage", reckons_with_wall_time, WALL)}
    of_their_own = {"server/runtime/clock.py", "storage/advice/simulating.py"}  # the latter's time is a variable
    assert {where for where in found if where.split()[0] not in of_their_own} == WITH_STORED_TIMES.keys()


@pytest.mark.parametrize("floor", ["protocol", "storage", "server"])
def test_no_code_reads_time_except_the_clock(floor: str) -> None:
    root = Path(ottla.__file__).parent
    importing = {
        str(path.relative_to(root))
        for path in (root / floor).rglob("*.py")
        for node in ast.walk(tree_of(path.read_text(), IMPORT))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and {"time", "datetime"} & {node.module if isinstance(node, ast.ImportFrom) else one.name for one in node.names}
    }
    # Some print times; the others measure how long they keep a thread.
    read_times = {"server/control/seed/fields.py", "server/control/seed/values.py"}
    # A client program: its timeouts, and the timestamps of its records.
    of_clients = {
        "server/client/connection.py",
        "server/client/kafka.py",
        "server/client/nodes.py",
        "server/client/table.py",
        "server/commands/advise.py",
        "server/commands/erase.py",
        "server/commands/kafka/empty.py",
        "server/commands/kafka/measure.py",
        "server/registry/decoding/cluster_schemas.py",
    }
    print_times = {
        "server/testing/reports.py",
        "server/commands/frame/times.py",
        "server/cleaning/advice.py",
        "server/embedded/clock.py",
        "server/page/section.py",
        "storage/erasure/report_page.py",
        "protocol/schemas/avro_logical.py",  # dates in records
        "server/embedded/faults.py",  # a duration of Python
        "server/security/tls/dev_certificates.py",  # the dates of certificates, counted from the given time
    }
    tell = {"server/runtime/log_rate_limit.py"}  # lines per second, for a reader of the log
    keep_threads = {
        "server/runtime/threads.py",
        "server/runtime/time_slices.py",
        "server/partitions/searches.py",
        "server/control/pictures.py",
        "server/page/pages.py",
        "server/control/explain.py",
        "server/handlers/throttled.py",
    }
    assert importing <= {"server/runtime/clock.py"} | print_times | read_times | of_clients | tell | keep_threads


def tree_of(text: str, words: re.Pattern[str]) -> ast.AST:
    """Return the parsed source; an empty module if the source has none of the words, as parsing takes most of the time."""
    return ast.parse(text if words.search(text) else "")


def places(floor: str, does: Callable[[ast.AST], bool], words: re.Pattern[str]) -> Iterator[str]:
    """Yield file and name of the functions with a matching node whose text has one of the words."""
    root = Path(ottla.__file__).parent
    for path in sorted((root / floor).rglob("*.py")):
        text = path.read_text()
        lines = text.splitlines()
        for function in functions(tree_of(text, words)):
            source = "\n".join(lines[function.lineno - 1 : function.end_lineno])
            if words.search(source) and any(map(does, ast.walk(function))):
                yield f"{path.relative_to(root)} {function.name}"


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from functions(node)


def name_of(node: ast.AST) -> str:
    """Return `now_ms` for `now_ms`, `self._now_ms` and `clock.now_ms()` alike."""
    node = node.func if isinstance(node, ast.Call) else node
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_")


def asks_for_elapsed_time(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    waits = node.attr in ("start", "sleep", "sleep_until") and name_of(node.value) in ("deadlines", "clock")
    return waits or name_of(node) == "elapsed_ms"


def reckons_with_wall_time(node: ast.AST) -> bool:
    parts = {
        ast.BinOp: lambda: [node.left, node.right],  # type: ignore[attr-defined]
        ast.Compare: lambda: [node.left, *node.comparators],  # type: ignore[attr-defined]
    }.get(type(node), list)()
    return any(name_of(part) == "now_ms" for part in parts)
