"""The command `ottla` as users and other programs call it: its output, its exit codes, the files that it leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla import __version__
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.server.commands import serve
from ottla.server.commands.cli import main
from ottla.server.commands.frame.command_line import parse_command_line as asked
from ottla.server.commands.serve import StopSignals, configuration
from ottla.server.commands.serve_command import missing_packages, users_given
from ottla.server.config.resources import ConfigResourceType
from ottla.storage.kernel import COMPILED
from ottla.storage.topics.options import ConfigError
from support.broker.admin import metadata, topic_names
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.serve_process import ServeProcess, command, run
from support.commands.command_runs import run_command
from support.commands.ended import ended
from support.sizes import full_only, size

ANYWHERE = ("--listener", "127.0.0.1:0")


# serve: the contract


def test_ready_line_has_an_address_per_node_and_a_signal_stops_cleanly(tmp_path: Path) -> None:
    listeners = ("--listener", "IN://127.0.0.1:0", "--listener", "OUT://127.0.0.1:0")
    with ServeProcess("--data", tmp_path / "data", "--nodes", "3", *listeners) as process:
        assert re.fullmatch(r"ready 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n", process.first_line)
        for node_id, place in enumerate(process.addresses):
            with RawClient(*place) as client:
                answer = metadata(client)
                assert [(node.host, node.port) for node in answer.brokers] == process.addresses
                assert [node.node_id for node in answer.brokers] == [0, 1, 2]
                create_topic(client, f"t{node_id}", partitions=3)
        assert process.stop(signal.SIGTERM) == (0, "")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in process.stderr


def test_acknowledged_records_survive_a_kill(tmp_path: Path) -> None:
    with ServeProcess("--data", tmp_path, *ANYWHERE) as process, RawClient(*process.addresses[0]) as client:
        create_topic(client, "t")
        for number in range(20):
            assert produce(client, "t", (f"k{number}", "v")).base_offset == number
        process.kill()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert [offset for offset, _, _ in records_of(fetch(client, "t", 0))] == list(range(20))
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_lines_on_standard_input_stop_and_start_nodes(tmp_path: Path) -> None:
    with ServeProcess("--data", tmp_path, "--nodes", "3", *ANYWHERE, obeys=True) as process:
        process.say("stop 1\n")
        assert process.hear() == "stopped 1\n"
        with RawClient(*process.addresses[0]) as client:
            assert [node.node_id for node in metadata(client).brokers] == [0, 2]
            # Errors go to standard error, and the lines after one are still executed.
            process.say(f"\nstop 7\nstop\nshutdown 0\nstop -1\n{'x' * 100_000}\nsta")
            process.say("rt 1\nstart 1\n")
            assert process.hear() == process.hear() == "started 1\n"
            assert [node.node_id for node in metadata(client).brokers] == [0, 1, 2]
        process.say("stop 0\nstop 1\nstop 2\nstart 2\n")
        assert [process.hear() for _ in range(4)] == ["stopped 0\n", "stopped 1\n", "stopped 2\n", "started 2\n"]
        process.hang_up()
        with RawClient(*process.addresses[2]) as client:
            assert [node.node_id for node in metadata(client).brokers] == [2]
        assert process.stop() == (0, "")
    told = [line for line in process.stderr.splitlines() if "standard input" in line]
    assert [line.partition("standard input: ")[2][:65] for line in told] == [
        "cannot stop node 7: node 7 not found; nodes: 0, 1, 2",
        "expected 'stop ID' or 'start ID', found 'stop'",
        "expected 'stop ID' or 'start ID', found 'shutdown 0'",
        "expected 'stop ID' or 'start ID', found 'stop -1'",
        "expected 'stop ID' or 'start ID', found '" + 24 * "x",
    ]


SERVER_PROPERTIES = """\
# A file as Apache Kafka reads it, with the comment lines that only we read.
# nodes=2
# node.6.listeners=PLAINTEXT://localhost:0
process.roles=broker,controller
node.id=5
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.voters=5@localhost:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}/from-file
num.partitions=2
log.retention.hours=\\
  3
log.cleaner.backoff.ms=77
group.min.session.timeout.ms=99
made.up.name=1
"""


def test_a_server_properties_file_is_accepted_and_stronger_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER_PROPERTIES.format(data=tmp_path))
    arguments = ("--config", file, "--profile", "dev", "--data", tmp_path / "from-flag")
    overrides = ("--override", "num.partitions=4", "--override", f"log.dirs={tmp_path}/from-override")
    with ServeProcess(*arguments, *overrides) as process, RawClient(*process.addresses[0]) as client:
        assert [host for host, _ in process.addresses] == ["127.0.0.1", "localhost"]
        assert [node.node_id for node in metadata(client).brokers] == [5, 6]
        values = describe_node(client, "5")
        process.stop()
    assert {name: values[name] for name in EXPECTED} == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {"server.properties", "from-override"}
    assert process.stderr.count("made.up.name") == 1
    (line,) = (line for line in process.stderr.splitlines() if "made.up.name" in line)
    assert line.endswith("made.up.name: unknown option, ignored")


EXPECTED = {
    "num.partitions": "4",  # override beats file
    "log.cleaner.backoff.ms": "77",  # file beats profile
    "log.retention.hours": "3",
    "log.segment.delete.delay.ms": "1000",  # profile beats default
    "log.segment.bytes": "1073741824",
}


def describe_node(client: RawClient, name: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name=name, configuration_keys=tuple(EXPECTED)
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=(resource,))).results
    return {config.name: config.value for config in result.configs}


def test_serve_defaults_to_the_kafka_profile_and_the_directorys_node_id(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides={"node.id": "3"}) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
    with ServeProcess("--data", tmp_path, *ANYWHERE) as process, RawClient(*process.addresses[0]) as client:
        assert [node.node_id for node in metadata(client).brokers] == [3]
        assert topic_names(client) == {"t"}
        assert describe_node(client, "3")["log.segment.delete.delay.ms"] == "60000"


def test_the_default_directory_is_reported_and_differs_from_apache_kafkas(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "EARLIER_DATA_DIR", f"{tmp_path}/none")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    for given, taken in (([], "/s/ottla/logs"), (["--data", "/d"], "/d"), (["--override", "log.dir=/e"], "/e")):
        caplog.clear()
        static, _ = configuration(asked(["serve", *given]).options)
        assert static.node(static.node_ids[0]).data_dirs == (taken,)
        assert [taken in line for line in caplog.messages] == [True] * (not given)


@pytest.mark.parametrize(
    ("environment", "taken"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/ottla/logs"),
        ({"HOME": "/h"}, "/h/.local/state/ottla/logs"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/ottla/logs"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/ottla/logs"),
        ({"HOME": "/"}, None),
        ({"HOME": "here"}, None),
        ({"XDG_STATE_HOME": "/a,b"}, None),
    ],
)
def test_the_default_directory_is_in_the_users_home_and_never_tmp(
    environment: dict[str, str], taken: str | None
) -> None:
    if taken is not None:
        assert serve.default_data_dir(environment) == taken
        return
    with pytest.raises(ConfigError, match=r"no home directory.*--data|comma") as refused:
        serve.default_data_dir(environment)
    assert "\n" not in str(refused.value)


def test_data_in_an_old_default_directory_are_reported_and_unchanged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "EARLIER_DATA_DIR", str(tmp_path / "earlier"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def warnings_about_earlier_data() -> list[str]:
        caplog.clear()
        configuration(asked(["serve"]).options)
        return [line for line in caplog.messages if "earlier version" in line]

    assert warnings_about_earlier_data() == []
    (tmp_path / "earlier").mkdir()
    assert warnings_about_earlier_data() == []
    (tmp_path / "earlier" / "meta.properties").touch()
    (line,) = warnings_about_earlier_data()
    assert f"start with --data {tmp_path}/earlier" in line
    if os.geteuid() == 0:
        os.chown(tmp_path / "earlier", 4711, 4711)
        assert warnings_about_earlier_data() == []


def test_users_come_from_a_file_or_environment_and_passwords_stay_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, empty = tmp_path / "users", tmp_path / "empty"
    file.write_text("# users\nalice:s3cr3t\n\nbob:s3cr3t:two:SCRAM-SHA-512\r\n#carol:x\n", encoding="utf-8-sig")
    file.chmod(0o600)
    empty.touch()

    def users(*words: str, of_environment: str = "") -> list[tuple[str, str]]:
        options = asked(["serve", "--data", "/d", "--listener", ":0", *words]).options
        options.user = users_given(options, {"OTTLA_USER": of_environment})
        return [(user.name, user.password) for user in configuration(options)[0].users]

    of_file = [("alice", "s3cr3t"), ("bob", "s3cr3t:two")]
    assert users("--user", f"@{file}") == of_file
    assert users("--user", f"@{file}", "--user", "carol:x") == [*of_file, ("carol", "x")]
    assert users(of_environment="carol:x\n\ndave:y") == [("carol", "x"), ("dave", "y")]
    assert users(of_environment=f"@{file}") == of_file
    assert users("--user", "carol:x", of_environment="dave:y") == [("carol", "x")]
    assert users() == []
    assert caplog.messages == []
    file.chmod(0o644)
    assert users("--user", f"@{file}") == of_file
    assert caplog.messages == [
        f"--user @{file}: all users of this machine can read the secrets in this file; chmod o-r {file}"
    ]
    file.write_text("alice\n")
    for wrong in (
        f"@{file}",
        f"@{empty}",
        f"@{tmp_path}/none",
        f"@{tmp_path}",
        "@alice:s3cr3t",
        "@",
        "s3cr3t",
        ":s3cr3t",
    ):
        with pytest.raises(ConfigError) as refused:
            users("--user", wrong)
        assert "s3cr3t" not in str(refused.value) and "\n" not in str(refused.value), wrong
    with pytest.raises(ConfigError, match=r"sasl[.]jaas[.]config… for --override") as refused:
        users("--override", "sasl.jaas.config:s3cr3t")
    assert "s3cr3t" not in str(refused.value)


def test_the_dev_profile_listens_on_loopback_and_kafkas_everywhere() -> None:
    for given, where in (
        ([], ("", "")),
        (["--profile", "dev"], ("localhost", "localhost")),
        (["--profile", "dev", "--listener", ":9092"], ("", "")),
        (["--profile", "dev", "--nodes", "2"], ("localhost", "localhost")),
    ):
        static, _ = configuration(asked(["serve", "--data", "/d", *given]).options)
        for node_id in static.node_ids:
            (listener,) = static.node(node_id).listener_configs
            assert (listener.host, listener.advertised_host) == where


def test_with_users_the_default_listener_requires_logins(tmp_path: Path) -> None:
    user, port = ["--user", "alice:secret"], "PLAINTEXT://:1"
    mapped = ["--override", "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT"]
    (tmp_path / "file").write_text(f"listeners={port}\n")
    for given, where in (
        (user, "SASL_PLAINTEXT://:9092"),
        ([*user, "--tls"], "SASL_SSL://:9092"),
        ([*user, "--profile", "dev"], "SASL_PLAINTEXT://localhost:9092"),
        ([*user, "--nodes", "2"], "SASL_PLAINTEXT://:9092"),
        ([*user, "--listener", ":1"], "SASL_PLAINTEXT://:1"),
        ([*user, *mapped], "PLAINTEXT://:9092"),
        ([], "PLAINTEXT://:9092"),
    ):
        static, _ = configuration(asked(["serve", "--data", str(tmp_path / "d"), *given]).options)
        assert static.node(0).listeners == (where,), given
    for given in (["--listener", port], ["--override", f"listeners={port}"], ["--config", str(tmp_path / "file")]):
        with pytest.raises(ConfigError, match="users require a SASL listener"):
            configuration(asked(["serve", "--data", "/d", *user, *given]).options)


def test_the_environment_ranks_between_flags_and_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.ms=2\nlog.dirs=/file\nmax.connections=2\n")
    variables = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_RETENTION_MS": "3",
        "KAFKA_LOG_DIRS": "/environment",
        "KAFKA_NUM_PARTITION": "9",
        "CLUSTER_ID": "abc",
    }
    given = [
        "serve",
        "--config",
        str(file),
        "--data",
        "/flag",
        "--override",
        "num.partitions=4",
        "--telemetry",
        "/reports",
    ]
    static, _ = configuration(asked(given).options, variables)
    config = static.node(static.node_ids[0])
    assert (config.num_partitions, config.log_defaults.retention_ms, config.data_dirs) == (4, 3, ("/flag",))
    assert (config.max_connections, static.cluster_id, static.telemetry) == (2, "abc", "/reports")
    assert "option num.partition not found, ignored; did you mean KAFKA_NUM_PARTITIONS" in caplog.text
    assert configuration(asked(given).options)[0].cluster_id is None


def test_hello_shows_a_snippet_with_the_address(tmp_path: Path) -> None:
    with ServeProcess("--data", tmp_path, *ANYWHERE, "--hello") as process:
        host, port = process.addresses[0]
        code, output = process.stop()
    assert (code, f'bootstrap_servers="{host}:{port}"' in output) == (0, True)


LOADED_AHEAD = """
import builtins, sys, trio
from trio.testing import MockClock
from ottla.server.handlers import Handlers
from ottla.server.runtime.gc_policy import GcPolicy
from ottla.server.commands.serve import warm_up
from ottla.protocol.apis import APIS
from ottla.protocol.wire import codec
wanted = ["ottla.server.groups.coordinator", "ottla.server.transactions.coordinator"]
print([name for name in wanted if name in sys.modules])
trio.run(warm_up, GcPolicy(), clock=MockClock(autojump_threshold=0))
print([name for name in wanted if name not in sys.modules])
known = len(sys.modules)
builtins.compile = lambda source, name, mode: print(name)
handlers = Handlers()
for key in Handlers.keys_ahead():
    handlers[key]
    api, version = APIS[key], APIS[key].versions[1]
    codec(api.request, version, api.is_flexible(version)).read_within
    codec(api.response, version, api.is_flexible(version)).write
print(len(sys.modules) - known)
"""


def test_modules_of_coordinators_and_apis_are_loaded_ahead() -> None:
    assert run_python(LOADED_AHEAD).stdout.split("\n") == ["[]", "[]", "0", ""]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@full_only  # a process that loads everything; `LOADED_AHEAD` is another
def test_a_module_that_cannot_be_loaded_ahead_does_not_stop_the_broker() -> None:
    done = run_python(
        "import errno, logging, sys, trio; from trio.testing import MockClock; from ottla.server.commands import serve\n"
        "class NoDescriptors:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.startswith('ottla.server.groups'): raise OSError(errno.EMFILE, 'Too many open files')\n"
        "sys.meta_path.insert(0, NoDescriptors())\n"
        "logging.basicConfig()\n"
        "trio.run(serve.warm_up, serve.GcPolicy(), clock=MockClock(autojump_threshold=0))"
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert "ahead of the first group: [Errno 24] Too many open files" in done.stderr


def test_an_error_after_the_start_is_not_a_failed_start(tmp_path: Path) -> None:
    done = run_python(
        "import sys; from ottla.server.commands import serve; from ottla.server.commands.cli import main\n"
        "async def fail(collector): raise OSError('no reason at all')\n"
        "serve.warm_up = fail\n"
        f"sys.exit(main(['serve', '--data', {str(tmp_path)!r}, '--listener', '127.0.0.1:0']))"
    )
    assert done.returncode == 1 and done.stdout.startswith("ready ")
    assert "ERROR ottla: the broker failed\nTraceback" in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("ottla: ")]


FEW_DESCRIPTORS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))
import logging, ottla
logging.basicConfig()
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
with ottla.Broker(sys.argv[1]) as broker, RawClient(*address(broker)) as client, RawClient(*address(broker)) as other:
    create_topic(client, "t", partitions=3)
    assert produce(client, "t", ("k", "v")).base_offset == 0
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        print(error.strerror)
    # DescribeGroups v0, by hand: whoever loads the API first, it is the broker.
    other.send_bytes(bytes([0, 0, 0, 17, 0, 15, 0, 0, 0, 0, 0, 1, 255, 255, 0, 0, 0, 1, 0, 1]) + b"g")
    print("closed" if other.is_closed_by_peer() else "answered")
    assert produce(client, "t", ("k", "v")).base_offset == 1
    for descriptor in taken:
        os.close(descriptor)
    assert produce(client, "t", ("k", "v")).base_offset == 2
    from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
    with RawClient(*address(broker)) as third:
        assert third.ask(DescribeGroupsRequest(groups=("g",))).groups[0].group_id == "g"
    print("served")
"""


def test_without_descriptors_a_broker_continues(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.stdout.split("\n") == ["Too many open files", "closed", "served", ""], done.stderr
    assert "Traceback" not in done.stderr


STOP_SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", size([signal.SIGINT], STOP_SIGNALS))
def test_signals_during_the_stop_change_nothing(tmp_path: Path, number: int) -> None:
    with ServeProcess("--data", tmp_path, *ANYWHERE) as process:
        process.signal_until_the_end(number, *STOP_SIGNALS)
        assert process.stop() == (0, "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert process.stderr.count(": stopping") == 1


def test_under_nohup_a_hangup_stays_ignored() -> None:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        StopSignals().listen()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# serve: refusals


def failure(*arguments: str | Path) -> str:
    """Return the only line on standard error of a start that fails with exit code 2."""
    done = run_command("serve", *map(str, arguments))
    assert (done.code, done.out) == (2, ""), done.err
    (line,) = done.err.splitlines()
    return line


def test_an_unusable_data_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    assert failure("--data", tmp_path / "file", *ANYWHERE).startswith(f"ottla: data directory {tmp_path}/file: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_port_in_use_is_one_line(broker: ottla.Broker, tmp_path: Path) -> None:
    done = run("serve", "--data", tmp_path / "new", "--listener", broker.bootstrap)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert f"cannot listen on PLAINTEXT://{broker.bootstrap}" in line
    assert not (tmp_path / "new").exists()


def test_a_directory_of_another_running_broker_is_one_line(broker: ottla.Broker, tmp_path: Path) -> None:
    assert failure("--data", tmp_path / "data", *ANYWHERE).startswith(f"ottla: data directory {tmp_path}/data: ")


REFUSED_OPTIONS = {
    "a value out of bounds": (["--override", "num.partitions=0"], "Invalid value 0 for configuration num.partitions"),
    "an override without value": (["--override", "num.partitions"], "must be NAME=VALUE"),
    "a bad address": (["--listener", "localhost"], "must be NAME://HOST:PORT"),
    "two listeners of one name": (["--listener", "h:1", "--listener", "h:2"], "listener names must be unique"),
    "no nodes": (["--nodes", "0"], "argument --nodes: expected a number from 1 on, found '0'"),
    "nodes that are no number": (["--nodes", "x"], "argument --nodes: expected a number from 1 on, found 'x'"),
    "an unknown profile": (["--profile", "fast"], "argument --profile: invalid choice 'fast'"),
    "an unknown flag": (["--fast"], "unknown option --fast"),
    "a missing file": (["--config", "/nowhere/server.properties"], "cannot read /nowhere/server.properties: No such"),
}


@pytest.mark.parametrize(("arguments", "says"), REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS.keys())
def test_an_invalid_option_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert exit_code("serve", "--data", tmp_path / "data", *arguments) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("ottla") and says in line
    assert (printed.out, (tmp_path / "data").exists()) == ("", False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"num.partitions=many\n", "Invalid value many for configuration num.partitions"),
        (b"name=\\u12\n", "malformed"),
        (b"# nodes=many\n", "Invalid value many for comment line # nodes"),
        (b"name=\xff\n", "is not UTF-8 at byte 5"),
    ],
)
def test_an_invalid_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, says: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(text)
    assert exit_code("serve", "--config", file, "--data", tmp_path / "data") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "data").exists()


def exit_code(*arguments: str | Path) -> int:
    """Return the exit code of `ottla ARGUMENTS`, run in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


# Help


@pytest.mark.parametrize(
    ("arguments", "teaches"),
    [
        ([], ["serve", "topics", "dump-log", "describe-config", "examples:"]),
        (["serve"], ["--config", "--data", "--profile", "--listener", "--nodes", "--override", "ready HOST:PORT"]),
        (["topics"], ["list", "describe", "create", "delete"]),
        (["topics", "create"], ["--partitions", "--replication-factor", "--config"]),
        (["topics", "describe"], ["TOPIC", "--bootstrap"]),
        (["topics", "delete"], ["TOPIC"]),
        (["topics", "list"], ["usage: ottla topics list"]),
        (["topics", "status"], ["--json", "columns:", "FIRST DIRTY", "REMOVED"]),
        (["dump-log"], ["FILE", "--deep", "--print-data"]),
        (["describe-config"], ["--scope", "--format"]),
    ],
)
def test_help_explains_the_commands(
    capsys: pytest.CaptureFixture[str], arguments: list[str], teaches: list[str]
) -> None:
    assert exit_code(*arguments, "--help") == 0
    text = capsys.readouterr().out
    for word in teaches:
        assert word in text


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code() == 2
    assert "usage: ottla" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    kernel = "compiled" if COMPILED else "interpreted"
    assert capsys.readouterr().out == f"ottla {__version__} ({kernel} cleaner kernel)\n"


# topics


def topics(broker: ottla.Broker, *arguments: str) -> int:
    return exit_code("topics", "--bootstrap", broker.bootstrap, *arguments)


def test_topics_are_created_listed_described_and_deleted(
    broker: ottla.Broker, client: RawClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topics(broker, "create", "t", "--partitions", "2", "--config", "cleanup.policy=compact") == 0
    assert capsys.readouterr().out == "created t with 2 partition(s)\n"
    produce(client, "t", ("k", "v"), partition=1)
    assert topics(broker, "list") == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "ID"]
    assert re.fullmatch(r"t +2 +1 +[\w-]{22}", row)
    assert topics(broker, "describe", "t") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"t  id [\w-]{22}", first)
    (data_dir,) = broker.inner.config.current.data_dirs
    assert rest == [
        "  cleanup.policy=compact",
        "PARTITION  LEADER  REPLICAS  LOG START  LOG END  RECORDS  LIVE KEYS  DIRECTORY",
        f"        0       0         0          0        0        0  0          {data_dir}",
        f"        1       0         0          0        1        1  0-1        {data_dir}",
    ]
    assert topics(broker, "describe", "t", "--scan") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"        0       0         0          0        0        0          0  {data_dir}",
        f"        1       0         0          0        1        1          1  {data_dir}",
    ]
    assert topics(broker, "delete", "t") == 0
    assert capsys.readouterr().out == "deleted t\n"
    assert topic_names(client) == set()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create", "a b"], "INVALID_TOPIC_EXCEPTION: Topic name is invalid"),
        (["create", "t", "--config", "zork=1"], "INVALID_CONFIG: Unknown topic config name: zork"),
        (["create", "t", "--replication-factor", "2"], "INVALID_REPLICATION_FACTOR: "),
        (["describe", "missing"], "UNKNOWN_TOPIC_OR_PARTITION: topic 'missing' not found"),
        (["delete", "missing"], "UNKNOWN_TOPIC_OR_PARTITION: "),
    ],
)
def test_refusals_by_the_broker_are_one_line(
    broker: ottla.Broker, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert topics(broker, *arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ottla: {says}") or says in line


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:1", "nonsense", "localhost:port", ":"])
def test_an_unreachable_broker_is_one_line(capsys: pytest.CaptureFixture[str], bootstrap: str) -> None:
    assert exit_code("topics", "--bootstrap", bootstrap, "list") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ottla: ") and bootstrap in line


# dump-log and describe-config; other tests check their output


def test_dump_log_shows_records_written_by_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        assert produce(client, "t", ("key", "value")).error_code == ErrorCode.NONE
    assert exit_code("dump-log", "--print-data", tmp_path / "t-0" / "00000000000000000000.log") == 0
    assert "key" in capsys.readouterr().out
    assert exit_code("dump-log", tmp_path / "missing.log") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "missing.log" in line


def test_describe_config_explains_an_option_and_helps_with_a_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("describe-config", "min.cleanable.dirty.ratio") == 0
    assert "0.5" in capsys.readouterr().out
    assert exit_code("describe-config", "min.cleanable.ratio") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "min.cleanable.dirty.ratio" in line


def test_a_closed_reader_is_not_an_error() -> None:
    with ended(subprocess.Popen(command("describe-config"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize(
    ("python", "installed", "named"),
    [
        ((3, 14), set(), None),
        ((3, 15), {"re2", "lz4", "zstandard"}, None),
        ((3, 15), {"lz4"}, "missing packages: google-re2, zstandard: no wheels for Python 3.15"),
        ((4, 0), set(), "missing packages: google-re2, lz4, zstandard: no wheels for Python 4.0"),
    ],
)
def test_a_too_new_python_is_reported_with_the_missing_packages(
    python: tuple[int, int], installed: set[str], named: str | None
) -> None:
    told = missing_packages(python, lambda module: module if module in installed else None)
    assert told is None if named is None else told is not None and told.startswith(named)


def test_a_command_run_in_this_process_keeps_its_signal_handlers(tmp_path: Path) -> None:
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in ends]
    (tmp_path / "file").touch()
    assert run_command("serve", "--data", str(tmp_path / "file")).code == 2
    assert [signal.getsignal(number) for number in ends] == before
