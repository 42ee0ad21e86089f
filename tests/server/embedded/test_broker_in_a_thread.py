"""`ottla.Broker`: the arguments that it accepts and refuses, its attributes, and that it is the same in every event loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.server.broker.supervisor import RunEndedError
from ottla.server.runtime.errors import ControlError
from ottla.storage.data_dirs.snapshots import SnapshotError
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.topics.config import ConfigError
from support.broker.admin import topic_names
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.noted import each_case
from support.sizes import some

# Arguments


def test_a_path_is_a_data_directory(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path / "data") as broker:
        assert broker.data_dir == str(tmp_path / "data")
    assert (tmp_path / "data" / "ottla.json").exists()


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for given in ("~/data", Path("~/data")):
        with ottla.Broker(given) as broker:
            assert broker.data_dir == str(tmp_path / "data")
    assert not (tmp_path / "~").exists()


def test_a_relative_directory_refers_to_the_original_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = ottla.Broker("data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with broker:
        assert broker.data_dir == str(tmp_path / "data")


def test_overrides_may_be_numbers_and_booleans() -> None:
    overrides = {"num.partitions": 3, "auto.create.topics.enable": False, "log.cleaner.min.cleanable.ratio": 0.25}
    with ottla.Broker(overrides={**overrides, "log.retention.ms": "5000"}) as broker:
        config = broker.inner.config.current
        assert (config.num_partitions, config.auto_create_topics_enable) == (3, False)
        assert (config.log_defaults.min_cleanable_dirty_ratio, config.log_defaults.retention_ms) == (0.25, 5000)


def test_a_number_is_a_port_of_the_admin_listener() -> None:
    with ottla.Broker(admin=0) as broker:
        assert broker.admin is not None and broker.admin.startswith("localhost:")
    with ottla.Broker() as broker:
        assert broker.admin is None


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a mistyped argument": (
        lambda: ottla.Broker(profil="dev"),  # type: ignore[call-arg]
        TypeError,
        "ottla.Broker() has no argument 'profil'; did you mean profile?",
    ),
    "an argument that nothing is like": (
        lambda: ottla.Broker(zzz=1),  # type: ignore[call-arg]
        TypeError,
        "ottla.Broker() has no argument 'zzz'",
    ),
    "a broker option as an argument": (
        lambda: ottla.Broker(num_partitions=3),  # type: ignore[call-arg]
        TypeError,
        "ottla.Broker() has no argument 'num_partitions'; for broker options use overrides={'num.partitions': ...}",
    ),
    "a topic option as an argument": (
        lambda: ottla.Broker(cleanup_policy="compact"),  # type: ignore[call-arg]
        TypeError,
        "ottla.Broker() has no argument 'cleanup_policy'; for broker options use overrides={'log.cleanup.policy': ...}",
    ),
    "a text for a number": (
        lambda: ottla.Broker(nodes="3"),  # type: ignore[arg-type]
        TypeError,
        "nodes: expected int, found '3'",
    ),
    "a truth for a number": (lambda: ottla.Broker(nodes=True), TypeError, "nodes: expected int, found True"),
    "a number for a text": (
        lambda: ottla.Broker(listener=9092),  # type: ignore[arg-type]
        TypeError,
        "listener: expected str, found 9092",
    ),
    "a port alone, which would be one on all addresses": (
        lambda: ottla.Broker(listener="9092"),
        ConfigError,
        "Invalid value 9092 for listener: must be HOST:PORT, e.g. 127.0.0.1:0; :PORT listens on all interfaces",
    ),
    "a number for a directory": (
        lambda: ottla.Broker(7),  # type: ignore[arg-type]
        TypeError,
        "data_dir: expected str, found 7",
    ),
    "a list of overrides": (
        lambda: ottla.Broker(overrides=["a=b"]),  # type: ignore[arg-type]
        TypeError,
        "overrides: expected Mapping or None, found ['a=b']",
    ),
    "a list for an override": (
        lambda: ottla.Broker(overrides={"log.dirs": ["/a"]}),  # type: ignore[dict-item]
        TypeError,
        "overrides: log.dirs: expected str or int or float, found ['/a']",
    ),
    "a text for a feature": (
        lambda: ottla.Broker(features={"group.version": "1"}),  # type: ignore[dict-item]
        TypeError,
        "features: group.version: expected int, found '1'",
    ),
    "a mistyped feature": (
        lambda: ottla.Broker(features={"transaction.versio": 1}),
        ConfigError,
        "features: feature transaction.versio not found; did you mean transaction.version?",
    ),
    "a mistyped option": (
        lambda: ottla.Broker(overrides={"log.cleaner.enabel": True}),
        ConfigError,
        "overrides: broker option log.cleaner.enabel not found; did you mean log.cleaner.enable?",
    ),
    "an option in Python's spelling": (
        lambda: ottla.Broker(overrides={"num_partitions": 3}),
        ConfigError,
        "overrides: broker option num_partitions not found; did you mean num.partitions?",
    ),
    "a topic option among the broker's": (
        lambda: ottla.Broker(overrides={"cleanup.policy": "compact"}),
        ConfigError,
        "overrides: broker option cleanup.policy not found; did you mean log.cleanup.policy?",
    ),
    "the home of nobody": (
        lambda: ottla.Broker("~nobody-of-that-name/data"),
        ConfigError,
        "Invalid value ~nobody-of-that-name/data for data_dir: home directory not found",
    ),
    "no directory": (
        lambda: ottla.Broker(""),
        ConfigError,
        "Invalid value '' for data_dir: must name a directory, or be None for a temporary one",
    ),
    "a path with a comma": (
        lambda: ottla.Broker(Path("/a,b")),
        ConfigError,
        "Invalid value /a,b for data_dir: a comma separates directories in log.dirs",
    ),
}


@each_case("call, kind, says", REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_argument_is_refused_in_one_line(
    call: Callable[[], object], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == says


async def test_open_broker_refuses_the_same_arguments() -> None:
    with pytest.raises(TypeError, match=r"ottla\.open_broker\(\) has no argument 'profil'; did you mean profile\?"):
        async with ottla.open_broker(profil="dev"):  # type: ignore[call-arg]
            pass


# Attributes


def test_before_start_and_after_stop_attributes_report_the_required_call() -> None:
    broker = ottla.Broker(admin=0)
    uses: tuple[Callable[[], Any], ...] = (
        lambda: broker.bootstrap,
        lambda: broker.admin,
        lambda: broker.data_dir,
        lambda: broker.inner,
        broker.restart,
        broker.crash,
        broker.reset,
        lambda: broker.snapshot("/x"),
        lambda: broker.advance_clock(1),
        broker.metrics,
    )
    for use in uses:
        with pytest.raises(RuntimeError, match=r"^the broker was not started; use `with ottla\.Broker\(\) as broker:`"):
            use()
    with broker:
        assert broker.bootstrap
    for use in uses:
        with pytest.raises(RuntimeError, match=r"^the broker was stopped; use .*, or call start\(\)$"):
            use()


def test_state_and_address_are_in_the_repr(tmp_path: Path) -> None:
    broker = ottla.Broker(tmp_path)
    assert (repr(broker), broker.state) == ("<ottla.Broker new>", "new")
    assert broker.start() is broker
    assert (repr(broker), broker.state) == (f"<ottla.Broker {broker.bootstrap} serving>", "serving")
    broker.stop()
    assert (repr(broker), broker.state) == ("<ottla.Broker stopped>", "stopped")


def test_dir_lists_exactly_the_public_attributes() -> None:
    names = set(dir(ottla.Broker())) - set(dir(object()))
    assert names >= {"bootstrap", "start", "stop", "restart", "crash", "reset", "snapshot", "restore", "run"}
    assert not [name for name in names if name.startswith("_") and not name.startswith("__")]
    assert {"Broker", "open_broker"} <= set(ottla.__all__) <= set(dir(ottla))


def test_advance_does_not_move_time_back() -> None:
    with ottla.Broker() as broker:
        with pytest.raises(
            ControlError, match=r"^advance: expected 0 ms or more, found -1; use set\(\) to move the clock back$"
        ):
            broker.advance_clock(-1)
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
            assert produce(client, "t", ("k", "v")).error_code == 0


# Its runs


def test_a_restart_keeps_address_and_data_and_a_reset_the_address() -> None:
    with ottla.Broker() as broker:
        before = broker.bootstrap
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
            produce(client, "t", ("k", "v"))
        for end in (broker.restart, broker.crash):
            end()
            assert broker.bootstrap == before
            with RawClient(*address(broker)) as client:
                assert records_of(fetch(client, "t", 0)) == [(0, b"k", b"v")]
        broker.reset()
        assert broker.bootstrap == before
        with RawClient(*address(broker)) as client:
            assert topic_names(client) == set()


def test_a_snapshot_is_written_to_a_path_and_restored(tmp_path: Path) -> None:
    with ottla.Broker() as broker:
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
        made = broker.snapshot(tmp_path / "snapshot")
        assert (made.path, made.files > 5) == (str(tmp_path / "snapshot"), True)
        broker.reset()
        assert broker.restore(str(tmp_path / "snapshot")) == made
        with RawClient(*address(broker)) as client:
            assert topic_names(client) == {"t"}
        with pytest.raises(SnapshotError, match="is not a snapshot"):
            broker.restore(tmp_path)
        for nowhere in ("", "a\0b"):
            for ask in (broker.snapshot, broker.restore):
                with pytest.raises(SnapshotError, match="expected a directory path, found "):
                    ask(nowhere)


def test_many_threads_may_end_runs_concurrently() -> None:
    failed: list[BaseException] = []
    with ottla.Broker() as broker:

        def end(how: Callable[[], None]) -> None:
            try:
                for _ in range(5):
                    how()
            except BaseException as error:  # noqa: BLE001 - looked at below
                failed.append(error)

        threads = [threading.Thread(target=end, args=(how,)) for how in (broker.restart, broker.crash, broker.reset)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failed
        with RawClient(*address(broker)) as client:
            assert topic_names(client) == set()


def test_a_stop_during_a_restart_is_reported_to_the_restarts_caller() -> None:
    for _ in range(10):
        broker = ottla.Broker().start()
        told: list[BaseException] = []

        def restart(broker: ottla.Broker = broker, told: list[BaseException] = told) -> None:
            try:
                while True:
                    broker.restart()
            except (RunEndedError, RuntimeError) as error:
                told.append(error)

        thread = threading.Thread(target=restart)
        thread.start()
        broker.stop()
        thread.join(60)
        assert not thread.is_alive() and len(told) == 1


def test_a_node_stopped_during_a_restart_serves_again() -> None:
    with ottla.Broker(nodes=2) as broker:
        host, port = broker.bootstrap.split(",")[1].split(":")
        for _ in range(10):
            threads = [threading.Thread(target=end_node, args=(broker,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            broker.restart()
            for thread in threads:
                thread.join(60)
            broker.restart()
            with RawClient(host, int(port)) as client:
                assert topic_names(client) == set()


def end_node(broker: ottla.Broker) -> None:
    with suppress(RunEndedError):
        broker.stop_node(1)


def test_calls_waiting_in_the_broker_are_notified_of_its_stop() -> None:
    broker = ottla.Broker().start()
    told: list[BaseException] = []
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await trio.sleep_forever()

    def ask() -> None:
        try:
            broker.run(wait)
        except BaseException as error:  # noqa: BLE001 - looked at below
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(60)
    broker.stop()
    thread.join(60)
    (error,) = told
    assert isinstance(error, RuntimeError) and str(error).startswith("the broker was stopped")


# Event loops


def test_in_asyncio_the_loop_continues_during_start_and_stop() -> None:
    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        before = ticks
        async with ottla.Broker() as broker:
            assert broker.state == "serving"
            assert ticks > before
            before = ticks
        assert broker.state == "stopped"
        assert ticks > before
        ticking.cancel()

    asyncio.run(main())


async def test_in_trio_the_loop_continues_during_start_and_stop() -> None:
    async with trio.open_nursery() as nursery:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await trio.lowlevel.checkpoint()
                ticks += 1

        nursery.start_soon(tick)
        async with ottla.Broker() as broker:
            assert broker.state == "serving"
            assert ticks > 0
        assert broker.state == "stopped"
        nursery.cancel_scope.cancel()


def test_a_start_that_asyncio_cancels_leaves_nothing() -> None:
    async def main(after_s: float) -> str:
        broker = ottla.Broker()

        async def use() -> None:
            async with broker:
                await asyncio.sleep(60)

        task = asyncio.create_task(use())
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return broker.state

    for after_ms in range(0, 12, 2):
        assert asyncio.run(main(after_ms / 1000)) in ("new", "stopped")


async def test_a_start_that_trio_cancels_leaves_nothing() -> None:
    for after_ms in range(0, 12, 2):
        broker = ottla.Broker()
        with trio.move_on_after(after_ms / 1000):
            async with broker:
                await trio.sleep_forever()
        assert broker.state in ("new", "stopped")


def test_a_failed_start_is_reported_in_every_loop(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(DataDirectoryError, match="held by another broker"):
            async with ottla.Broker(tmp_path):
                pass

    with ottla.Broker(tmp_path):
        asyncio.run(main())
        trio.run(main)


def test_a_second_start_does_not_stop_a_running_broker() -> None:
    async def main() -> None:
        async with ottla.Broker() as broker:
            with pytest.raises(RuntimeError, match="already running"):
                await asyncio.to_thread(broker.start)
            assert broker.state == "serving"

    asyncio.run(main())


def test_open_broker_under_asyncio_names_the_alternative() -> None:
    async def main() -> None:
        async with ottla.open_broker():
            pass

    with pytest.raises(
        RuntimeError, match=r"requires Trio, found asyncio; use `async with ottla\.Broker\(\) as broker:`"
    ):
        asyncio.run(main())


# Nothing is left


def python(program: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )


FORGOTTEN = {
    "not stopped": "broker = ottla.Broker().start()",
    "not even kept": "ottla.Broker().start()",
    "two of them": "brokers = [ottla.Broker().start() for _ in range(2)]",
    "at an error": "broker = ottla.Broker().start(); 1 / 0",
    "at an exit": "broker = ottla.Broker().start(); sys.exit(3)",
    "with a client": "broker = ottla.Broker().start(); host, port = broker.bootstrap.split(':'); s = socket.create_connection((host, int(port)))",
}


@pytest.mark.parametrize("what", some(FORGOTTEN, 2))
def test_a_broker_that_is_never_stopped_leaves_no_directory(what: str, tmp_path: Path) -> None:
    done = python(f"import ottla, socket, sys\n{FORGOTTEN[what]}", TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert "ottla" not in done.stderr.replace("ottla.Broker().start(); 1 / 0", "")


def test_a_broker_that_is_never_stopped_stops_cleanly_at_exit(tmp_path: Path) -> None:
    done = python(f"import ottla\nbroker = ottla.Broker({str(tmp_path)!r}).start()")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_stop_in_the_brokers_own_thread_is_refused_without_deadlock() -> None:
    with ottla.Broker() as broker:

        async def stop() -> None:
            broker.stop()

        with pytest.raises(RuntimeError, match="own thread; call it in another thread"):
            broker.run(stop)
        assert broker.state == "serving"
    assert broker.state == "stopped"


def test_a_forked_process_keeps_its_parents_directory_and_knows_its_addresses(tmp_path: Path) -> None:
    program = """
        import inspect, os, sys, ottla
        with ottla.Broker(admin=0, listener="localhost:0") as broker:
            broker.produce("t", "v")  # there is a client, whose connection the child has, too
            known = broker.bootstrap, broker.admin
            child = os.fork()
            if child == 0:
                print((broker.bootstrap, broker.admin) == known, flush=True)
                told, others, arguments = set(), [], {"advance_clock": [1], "seed": [{}]}
                for name in ["__enter__", *(each for each in dir(broker) if not each.startswith("__") and each != "stop")]:
                    try:
                        found = getattr(broker, name)
                        if inspect.iscoroutinefunction(found):
                            continue
                        if inspect.ismethod(found):
                            wanted = [each for each in inspect.signature(found).parameters.values()
                                      if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
                            found(*arguments.get(name, ["t" if each.name != "offsets" else {} for each in wanted]))
                        others.append(name)
                    except RuntimeError as error:
                        told.add(str(error))
                    except Exception as error:
                        others.append(f"{name}: {error!r}")
                print(*sorted(told), sep="|", flush=True)
                print(*sorted(others), sep="|", flush=True)
                sys.exit(0)  # runs what is to be run at the end
            os.waitpid(child, 0)
            print(os.path.exists(broker.data_dir), broker.state)
    """
    known, told, others, after = python(program, TMPDIR=str(tmp_path)).stdout.splitlines()
    assert known == "True" and after == "True serving"
    assert others.split("|") == ["admin", "bootstrap", "cases", "clock", "schema_registry", "security", "state"]
    assert (
        "the broker runs in the parent process; after a fork only broker.bootstrap, broker.admin and"
        " broker.schema_registry are available."
        " Use them with a client, or start the broker after the fork"
    ) in told.split("|")
    assert "the broker is already running" not in told and "the broker was stopped" not in told
    assert list(tmp_path.iterdir()) == []


async def test_a_running_broker_may_be_entered_and_is_stopped_at_the_end() -> None:
    broker = ottla.Broker().start()
    bootstrap = broker.bootstrap
    with broker as entered:
        assert entered is broker and entered.bootstrap == bootstrap
    assert broker.state == "stopped"
    async with broker:
        async with broker as again:
            assert again.state == "serving"
        assert broker.state == "stopped"
    assert broker.state == "stopped"


def test_a_process_forked_during_a_call_can_exit() -> None:
    program = """
        import os, signal, sys, threading, ottla
        with ottla.Broker() as broker:
            broker.create_topic("t")
            fault = broker.fault("Produce", delay=60)
            call = threading.Thread(target=broker.produce, args=("t", "v"))
            call.start()
            fault.wait()
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                sys.exit(7)  # through the end of the block, which stops what is not its own
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            fault.remove()
            call.join()
            print(len(broker.records("t")))
    """
    assert python(program).stdout.splitlines() == ["7", "1"]


def test_a_start_that_fails_leaves_no_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    refused: tuple[dict[str, Any], ...] = ({"profile": "fast"}, {"listener": "nowhere"}, {"admin": "0.0.0.0:0"})
    for options in refused:
        with pytest.raises(ConfigError):
            ottla.Broker(**options).start()
    assert list(tmp_path.iterdir()) == []
