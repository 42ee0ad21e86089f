"""The command `ottla-spark`: its output, the files that it leaves, and its exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import ottla
from ottla.pipeline import cli, jobs
from ottla.pipeline.cli import main
from ottla.pipeline.errors import CorruptSourceError, ExitCode, PipelineError
from ottla.pipeline.run import wire_runs
from ottla.pipeline.run.apply_run import job_of
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from support.commands.ended import ended
from support.pipeline.stored_topic import PARTITIONS, TOPIC, copied, stored_topic
from support.sizes import full_only, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = ("--master", "none")
FIRST_LOG = f"{TOPIC}-0/{0:020}.log"


class Shell:
    """A runner of command lines over one data directory."""

    def __init__(self, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data_dir = data_dir
        self.staging = data_dir.with_name(f"{data_dir.name}.ottla-pipeline")
        self._capsys = capsys

    def __call__(self, command: str, *options: object, exit_code: int = 0) -> str:
        """Run the command in this process; return its standard output, or the one line of a refusal."""
        line = [command, str(self.data_dir), "--topic", TOPIC, *HERE, *map(str, options)]
        assert main(line) == exit_code
        out, err = self._capsys.readouterr()
        self.progress = err.splitlines()
        if exit_code:
            refusals = [line for line in self.progress if line.startswith("ottla-spark: ")]
            assert len(refusals) == 1
            return refusals[0]
        return out

    def json(self, command: str, *options: object) -> Any:
        return json.loads(self(command, *options, "--json"))

    def files(self) -> dict[str, bytes]:
        found = [path for path in self.data_dir.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.data_dir)): path.read_bytes() for path in found}


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(stored_topic(tmp_path), capsys)


def damage(data_dir: Path, name: str = FIRST_LOG, at: int = 70) -> None:
    data = bytearray((data_dir / name).read_bytes())
    data[at] ^= 0xFF
    (data_dir / name).write_bytes(data)


def test_compact_without_install_stops_before_the_swap(shell: Shell) -> None:
    before = shell.files()
    results = shell.json("compact")["partitions"]
    assert [(each["partition"], each["outcome"], each["records_written"]) for each in results] == [
        (0, "staged", 5),
        (1, "staged", 1),
    ]
    assert results[0]["removed"] == {
        "superseded": 2,
        "keyless": 0,
        "tombstones": 0,
        "aged": 0,
        "aborted": 1,
        "markers": 0,
    }
    assert shell.files() == before
    assert shell.progress == [
        f"{TOPIC}-0: group 1 of 1: 2 segments, 411 bytes -> 325, 8 records -> 5",
        f"{TOPIC}-1: group 1 of 1: 2 segments, 148 bytes -> 77, 2 records -> 1",
    ]


def test_compact_and_install_pass_every_kind_of_verify(shell: Shell) -> None:
    before = copied(shell.data_dir)
    assert {each["outcome"] for each in shell.json("compact", "--install")["partitions"]} == {"installed"}
    assert shell.json("verify")["passed"]
    report = shell.json("verify", "--against", before)
    assert report["passed"] and report["partitions"][0]["records_before"] == 10
    for plan in shell.json("status")["plans"]:
        assert plan["is_complete"] and plan["originals_bytes"] > 0
        assert shell.json("verify", "--plan", plan["plan_id"])["passed"]
        shell("verify", "--plan", plan["plan_id"], "--drop-originals")
    assert shell.json("status")["plans"] == [] and not shell.staging.exists(), (
        "what is verified and dropped is forgotten"
    )
    assert {each["outcome"] for each in shell.json("compact", "--install")["partitions"]} == {"nothing to do"}


def test_staged_groups_can_be_installed_later(shell: Shell) -> None:
    shell("compact", "--partition", 0)
    assert shell.json("install")["partitions"][0]["outcome"] == "installed"
    assert "expected a staged plan, found none" in shell("install", exit_code=1)


def test_a_dry_run_reports_removals_and_leaves_no_files(shell: Shell) -> None:
    before = shell.files()
    results = shell.json("compact", "--dry-run")["partitions"]
    assert [each["outcome"] for each in results] == ["would be compacted"] * 2
    assert results[0]["records_read"] - results[0]["records_written"] == 3
    assert shell.files() == before
    assert [path.name for path in shell.data_dir.parent.iterdir()] == ["data"]


def test_a_plan_and_a_dry_run_are_drawn(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    shell("plan", "--html", file)
    planned = file.read_text()
    assert planned.startswith("<!doctype html>") and "A pass would read" in planned
    shell("compact", "--dry-run", "--html", file)
    dry = file.read_text()
    assert "The pass would keep" in dry and 'class="gone"' in dry
    assert "<script" not in dry and dry.count("<svg") == dry.count("</svg>")
    assert "--html: expected --dry-run" in shell("compact", "--html", file, exit_code=1)
    assert "No such file" in shell("plan", "--html", tmp_path / "none" / "x.html", exit_code=1)


def test_pictures_of_results_add_up(shell: Shell) -> None:
    (done,) = jobs.compact(None, str(shell.data_dir), topic=TOPIC, partition=0, dry_run=True)
    assert done.picture is not None
    assert (done.picture.bytes_before, done.picture.bytes_after) == (done.bytes_read, done.bytes_written)
    assert (done.picture.records_before, done.picture.records_after) == (done.records_read, done.records_written)
    assert dict(done.picture.removed) == {reason: count for reason, count in done.removed.items() if count}
    assert "The pass would keep" in done._repr_html_()


def test_the_pending_plan_is_resumed(shell: Shell) -> None:
    planned = [each["plan_id"] for each in shell.json("plan")["partitions"]]
    assert [each["plan_id"] for each in shell.json("compact")["partitions"]] == planned
    assert [each["plan_id"] for each in shell.json("compact", "--resume", "--install")["partitions"]] == planned


def test_other_configs_give_another_plan(shell: Shell) -> None:
    planned = [each["plan_id"] for each in shell.json("plan")["partitions"]]
    results = shell.json("compact", "--config", "delete.retention.ms=5")["partitions"]
    assert not {each["plan_id"] for each in results} & set(planned)


def test_segments_changed_since_the_plan_give_exit_code_4(shell: Shell) -> None:
    shell("plan", "--partition", 0)
    (shell.data_dir / FIRST_LOG).write_bytes((shell.data_dir / FIRST_LOG).read_bytes() * 2)
    refusal = shell("compact", "--partition", 0, "--resume", exit_code=4)
    assert f"{shell.data_dir / FIRST_LOG}: expected " in refusal and " bytes" in refusal


def test_an_unusable_plan_is_replaced(shell: Shell) -> None:
    (planned,) = shell.json("plan", "--partition", 0)["partitions"]
    for path in (shell.data_dir / FIRST_LOG).parent.glob(f"{0:020}.*"):
        path.unlink()  # retention
    (made,) = shell.json("compact", "--partition", 0)["partitions"]
    assert (made["outcome"], made["segments"]) == ("staged", 1)
    assert [each["plan_id"] for each in shell.json("status")["plans"]] == [made["plan_id"]] != [planned["plan_id"]]


def test_a_directory_that_a_server_holds_gives_exit_code_2(shell: Shell) -> None:
    lock = OsFiles().lock(str(shell.data_dir / paths.LOCK_FILE))
    try:
        assert "stop that server" in shell("compact", "--install", exit_code=2)
        shell("compact")
        assert "stop that server" in shell("install", exit_code=2)
    finally:
        lock.release()


def test_staged_groups_are_installed_through_a_running_server(shell: Shell) -> None:
    before = copied(shell.data_dir)
    with ottla.Broker(str(shell.data_dir), overrides={"log.cleaner.enable": "false"}, admin="0") as broker:
        assert broker.admin is not None
        assert "stop that server" in shell("compact", "--install", exit_code=2)
        results = shell.json("compact", "--install", "--admin", broker.admin)["partitions"]
        assert {each["outcome"] for each in results} == {"installed"}
    assert shell.json("verify", "--against", str(before))["passed"]


def test_a_partly_installed_plan_overtaken_by_the_cleaner_is_replaced(tmp_path: Path, capsys: Any) -> None:
    shell = Shell(stored_topic(tmp_path, internal_segment_bytes="300"), capsys)
    shell("compact", "--partition", 0, "--install", "--max-groups", 1)
    (planned,) = shell.json("status")["plans"]
    assert (planned["installed"], planned["groups"]) == (1, 2)
    path = shell.data_dir / f"{TOPIC}-0/{4:020}.log"
    path.write_bytes(path.read_bytes()[:-78])  # its last batch
    assert str(path) in shell("compact", "--partition", 0, "--resume", "--install", exit_code=4)
    (made,) = shell.json("compact", "--partition", 0, "--install")["partitions"]
    assert made["outcome"] == "installed" and made["plan_id"] != planned["plan_id"]
    assert any("partly installed" in line and planned["plan_id"] in line for line in shell.progress)
    assert [each["plan_id"] for each in shell.json("status", "--forget", planned["plan_id"])["plans"]] == [
        made["plan_id"]
    ]


def test_a_dry_run_keeps_the_pending_plan(shell: Shell) -> None:
    (planned,) = shell.json("plan", "--partition", 0)["partitions"]
    shell("compact", "--partition", 0, "--dry-run", "--config", "delete.retention.ms=5")
    assert [(each["plan_id"], each["staged"]) for each in shell.json("status")["plans"]] == [(planned["plan_id"], 0)]


def test_a_pending_plan_of_other_configs_is_not_orphaned(shell: Shell) -> None:
    shell("plan", "--partition", 0)
    (made,) = shell.json("compact", "--partition", 0, "--config", "delete.retention.ms=5")["partitions"]
    assert [each["plan_id"] for each in shell.json("status")["plans"]] == [made["plan_id"]]


def test_an_unreadable_plan_is_named(shell: Shell) -> None:
    (planned,) = shell.json("plan", "--partition", 0)["partitions"]
    path = shell.staging / planned["plan_id"] / "plan.json"
    path.write_bytes(path.read_bytes()[:300])
    assert f"{path}: not a compaction plan: " in shell("compact", exit_code=1)
    path.write_bytes(b"\xff")
    assert str(path) in shell("status", exit_code=1)


def test_plans_in_a_copy_of_the_directory_never_touch_the_original(shell: Shell) -> None:
    shell("compact")
    before = shell.files()
    copy = shell.data_dir.with_name("copy")
    shutil.copytree(shell.data_dir, copy)
    shutil.copytree(shell.staging, shell.staging.with_name("copy.ottla-pipeline"))
    original, shell.data_dir = shell.data_dir, copy
    for command in ("install", "compact", "status"):
        assert f"expected a plan of {copy}, found one of {original}" in shell(command, exit_code=1)
    shell.data_dir = original
    assert shell.files() == before


def test_a_link_to_a_data_directory_is_that_directory(shell: Shell) -> None:
    real = shell.data_dir
    shell.data_dir = real.with_name("link")
    shell.data_dir.symlink_to(real)
    assert {each["outcome"] for each in shell.json("compact", "--install")["partitions"]} == {"installed"}
    assert sorted(path.name for path in real.parent.iterdir()) == ["data", "data.ottla-pipeline", "link"]


def test_a_file_named_like_a_partition_is_not_one(shell: Shell) -> None:
    (shell.data_dir / f"{TOPIC}-2").touch()
    assert len(shell.json("compact")["partitions"]) == 2
    assert len(shell("read", "--limit", 1).splitlines()) == 2


def test_a_run_without_work_gives_a_reason(shell: Shell) -> None:
    shell("compact", "--install")
    assert "nothing to do: clean up to offset 8; what lies from offset 8 on" in shell("compact")


def test_damage_gives_exit_code_3_and_its_position(shell: Shell) -> None:
    damage(shell.data_dir)
    for command, *options in (["compact"], ["snapshot", "--out", str(shell.data_dir.parent / "out")], ["read"]):
        refusal = shell(command, *options, exit_code=3)
        assert f"{shell.data_dir / FIRST_LOG}, byte 0, offset 0: expected " in refusal and ", found 0x" in refusal


def test_a_damaged_partition_can_be_excluded(shell: Shell) -> None:
    damage(shell.data_dir)
    results = shell.json("compact", "--on-corrupt", "skip-partition", "--install")["partitions"]
    assert [each["outcome"] for each in results] == ["skipped", "installed"]
    assert "byte 0, offset 0" in results[0]["reason"]


def test_findings_of_verify_give_exit_code_5(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    before = copied(shell.data_dir)
    shell("compact", "--install")
    damage(shell.data_dir)
    refusal = shell("verify", exit_code=5)
    assert refusal.startswith(
        f"ottla-spark: {TOPIC}-0: a batch has the CRC of its bytes: {shell.data_dir / FIRST_LOG}, byte 0, offset 0: "
    )
    main(["verify", str(shell.data_dir), "--topic", TOPIC, *HERE, "--against", str(before), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert not report["passed"]
    assert {"a batch has the CRC of its bytes", "a key's newest record is kept"} == {
        each["rule"] for each in report["partitions"][0]["findings"]
    }


def test_a_lost_partition_gives_exit_code_5(shell: Shell) -> None:
    before = copied(shell.data_dir)
    shutil.rmtree(shell.data_dir / f"{TOPIC}-1")
    assert f"{TOPIC}-1: expected a log, as in {before}, found none" in shell("verify", "--against", before, exit_code=5)


def test_damaged_originals_give_exit_code_3(shell: Shell) -> None:
    before = copied(shell.data_dir)
    damage(before)
    assert f"{before / FIRST_LOG}, byte 0, offset 0: " in shell("verify", "--against", before, exit_code=3)


USAGE = (
    (["compact", "/nowhere", "--topic", "t"], "/nowhere is not a directory"),
    (["compact", "DATA", "--topic", "nope"], "has no log of nope"),
    (["compact", "DATA", "--topic", f"{TOPIC}x"], f"has no log of {TOPIC}x, did you mean {TOPIC}?"),
    (["compact", "DATA", "--topic", TOPIC, "--partition", "7"], f"has no log of {TOPIC}-7"),
    (["compact", "DATA", "--topic", TOPIC, "--config", "cleanup.policy=delete"], "only compacted topics"),
    (["compact", "DATA", "--topic", TOPIC, "--config", "no.such=1"], "no.such"),
    (["compact", "DATA", "--topic", TOPIC, "--install", "--dry-run"], "expected one of them"),
    (["compact", "/no\x1b[2Jw\u202ehere", "--topic", "t"], r"/no\x1b[2Jw\u202ehere is not a directory"),
    (["verify", "DATA"], "expected --topic or --plan"),
    (["verify", "DATA", "--plan", "abc"], "expected a plan abc next to it, found none"),
)


@pytest.mark.parametrize(("line", "text"), USAGE, ids=lambda each: each if isinstance(each, str) else "")
def test_invalid_arguments_give_exit_code_1(
    line: list[str], text: str, shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    command, data_dir, *options = line
    directory = str(shell.data_dir) if data_dir == "DATA" else data_dir
    assert main([command, directory, *options, *HERE]) == 1
    assert text in capsys.readouterr().err


BAD_OPTIONS: tuple[tuple[list[str], str], ...] = (
    ([], "the following arguments are required"),
    (["nope"], "invalid choice"),
    (["compact", "x"], "required: --topic"),
    (["compact", "x", "--topic", "t", "--config", "a"], "expected NAME=VALUE, found 'a'"),
    (["compact", "x", "--topic", "t", "--conf", "a.b:s3cr3t"], "expected NAME=VALUE, found 'a.b'…"),
    (["apply", "--kafka-config", "a"], "expected NAME=VALUE or @FILE, found 'a'"),
    (["apply", "--kafka-config", "@"], "expected NAME=VALUE or @FILE, found ''…"),
    (["restore", "x", "--producer-config", "a:s3cr3t"], "expected NAME=VALUE or @FILE, found 'a'…"),
    (["compact", "x", "--topic", "t", "--max-groups", "0"], "expected a number from 1 on, found '0'"),
    (["compact", "x", "--topic", "t", "--partition", "one"], "expected a number from 0 on, found 'one'"),
)


@pytest.mark.parametrize(("line", "text"), BAD_OPTIONS)
def test_bad_options_give_exit_code_1(line: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(line)
    assert exit.value.code == 1
    (refusal,) = capsys.readouterr().err.splitlines()
    assert text in refusal and "s3cr3t" not in refusal


OF_THE_LINE = {"command", "master", "conf", "json", "quiet", "html", "on_corrupt", "drop_originals", "forget"}
"""Work of the command line itself."""


@pytest.mark.parametrize("name", ["plan", "compact", "install", "verify", "snapshot", "status"])
def test_each_option_has_the_name_of_a_parameter(name: str) -> None:
    line = [name, "x", "--topic", "t", *(("--out", "y") if name == "snapshot" else ())]
    given = set(vars(cli._parser().parse_args(line))) - OF_THE_LINE - set(wire_runs.OF_THE_WIRE)
    assert given <= {*signature(getattr(jobs, name)).parameters, *signature(jobs.job).parameters, "includes_active"}


def test_an_unknown_table_format_is_answered_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        cli.main(["apply", "--data-dir", "x", "--topic", "t", "--table", "y", "--table-format", "parquet"])
    assert "--table-format: expected one of delta, delta-rs, iceberg, found parquet" in capsys.readouterr().err


def test_apply_takes_options_of_kafkas_clients_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nbootstrap.servers=other:1\n")
    path.chmod(0o600)
    words = ["--kafka-config", f"@{path}", "--kafka-config", "sasl.mechanism=A", "--topic", "t", "--table", "t"]
    options = cli._parser().parse_args(["apply", "--bootstrap", "here:1", *words, "--table-format", "delta"])
    assert job_of(options, pytest.fail).kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "A",
        "bootstrap.servers": "here:1",
    }


def test_a_reader_of_the_output_may_stop(shell: Shell) -> None:
    line = [sys.executable, "-m", "ottla.pipeline.cli", "read", str(shell.data_dir), "--topic", TOPIC, *HERE]
    with ended(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_read_prints_committed_records(shell: Shell) -> None:
    rows = [json.loads(line) for line in shell("read", "--partition", 0, "--from-offset", 4).splitlines()]
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (6, "a", "2"),
        (7, "b", None),
        (8, "d", "1"),
        (9, "a", "3"),
    ]
    assert len(shell("read", "--limit", 1).splitlines()) == 2
    everything = shell("read", "--isolation-level", "read_uncommitted", "--partition", 0)
    assert '"key": "x"' in everything


def test_some_jobs_need_no_session(tmp_path: Path) -> None:
    data_dir = str(stored_topic(tmp_path))
    assert [each.outcome for each in jobs.plan(None, data_dir, topic=TOPIC)] == ["planned"] * 2
    previewed = jobs.compact(None, data_dir, topic=TOPIC, dry_run=True)
    done = jobs.compact(None, data_dir, topic=TOPIC)
    assert [(each.bytes_written, each.removed) for each in previewed] == [
        (each.bytes_written, each.removed) for each in done
    ]
    (plan, _) = jobs.status(data_dir)
    assert [each.outcome for each in jobs.install(None, data_dir, plan_id=plan["plan_id"])] == ["installed"]
    assert jobs.verify(None, data_dir, plan_id=plan["plan_id"]).passed
    assert jobs.snapshot(None, data_dir, topic=TOPIC, out=str(tmp_path / "out")).keys == 6


def without_the_extra(*lines: list[str], but: str = "") -> tuple[list[int], str]:
    """Run commands in a process with only one package of the extra installed; return their exit codes, and their output."""
    gone = {"numpy", "pandas", "pyarrow", "pyspark", "py4j"} - {but}
    code = f"""import sys; sys.modules |= dict.fromkeys({gone})
from ottla.pipeline.cli import main
print(*(main(line) for line in {lines}))"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    *said, codes = done.stdout.splitlines()
    return [int(each) for each in codes.split()], "\n".join(said) + done.stderr


def test_without_the_extra_each_command_names_the_missing_package(shell: Shell) -> None:
    line = [str(shell.data_dir), "--topic", TOPIC, *HERE]
    commands = (["compact"], ["verify"], ["read"], ["snapshot", "--out", str(shell.data_dir / "out")])
    found = without_the_extra(*([command, *line, *options] for command, *options in commands), but="numpy")
    assert found == ([1] * 4, "ottla-spark: pyarrow is missing: pip install 'ottla[spark]'\n" * 4)


def test_without_the_extra_apply_names_the_extra_and_the_jars_of_its_format() -> None:
    line = ["apply", "--bootstrap", "localhost:1", "--topic", "t", "--table-format", "delta", "--table", "./t"]
    exit_codes, said = without_the_extra(line, ["doctor"])
    assert exit_codes == [1, 1]
    assert (
        "ottla-spark: pyspark, pyarrow, pandas, numpy are missing: pip install 'ottla[spark-delta]'; the jars of delta and kafka are"
        " missing: --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0,"
    ) in said
    assert "plan, compact, verify, snapshot, check" in said and "pip install 'ottla[spark]'" in said


def test_staged_groups_can_be_installed_without_spark_arrow_and_numpy(shell: Shell) -> None:
    shell("compact")
    exit_codes, said = without_the_extra(*([command, str(shell.data_dir)] for command in ("status", "install")))
    assert exit_codes == [0, 0]
    assert said.count("1 of 1 groups staged, 0 installed") == said.count(": installed: plan ") == PARTITIONS
    shell("verify")


def test_the_other_partitions_are_completed_when_one_fails(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    damage(shell.data_dir)
    line = ["compact", str(shell.data_dir), "--topic", TOPIC, *HERE, "--install", "--json"]
    assert main(line) == 3
    out, err = capsys.readouterr()
    failed, done = json.loads(out)["partitions"]
    assert (failed["outcome"], done["outcome"]) == ("failed", "installed")
    assert "byte 0, offset 0" in failed["reason"] and failed["reason"] in err


def test_several_topics_are_named_with_commas_between_them(shell: Shell) -> None:
    line = ["plan", str(shell.data_dir), "--topic", f"{TOPIC},{TOPIC}", *HERE]
    assert main(line) == 0
    assert main(["verify", *line[1:], "--against", str(copied(shell.data_dir))]) == 0
    line[3] = f"{TOPIC},nowhere"
    assert main(line) == 1


@pytest.mark.parametrize("name", ["register", "session"])
def test_without_the_extra_an_import_names_the_missing_package(name: str) -> None:
    code = f"import sys; sys.modules['pyarrow'] = sys.modules['pyspark'] = None\nfrom ottla.pipeline import {name}"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: ottla.pipeline.{name}: py")
    assert last.endswith(" is missing: pip install 'ottla[spark]'")


def test_the_commands_work_on_a_callers_session(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    before = copied(data_dir)
    lines: list[str] = []
    results = jobs.compact(spark, str(data_dir), topic=TOPIC, installs=True, say=lines.append, at_once=size(2, 1))
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None, "the caller's jobs are the caller's"
    rows = jobs.results_frame(spark, results).orderBy("partition").collect()
    assert [(row.outcome, row.records_written, row.removed["superseded"]) for row in rows] == [
        ("installed", 5, 2),
        ("installed", 1, 1),
    ]
    assert sum(" -> " in line for line in lines) == 2
    report = jobs.verify(spark, str(data_dir), topic=TOPIC, against=str(before))
    assert report.passed and [each.records_before for each in report.partitions] == [10, 3]
    damage(data_dir)
    failed = jobs.verify(spark, str(data_dir), topic=TOPIC, partition=size(0, None), against=str(before))
    assert failed.first is not None
    tp, finding = failed.first
    assert finding.rule == "a batch has the CRC of its bytes"
    assert (tp.partition, finding.offset, finding.position) == (0, 0, 0)
    assert spark.range(1).count() == 1, "the session is the caller's"
    with pytest.raises(PipelineError, check=lambda error: error.exit_code == ExitCode.FAILED):
        from ottla.pipeline.spark.failures import failures_translated

        with failures_translated():
            spark.sql("SELECT raise_error('x')").collect()


def test_spark_compacts_partitions_concurrently_and_a_failure_stops_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    data_dir = stored_topic(tmp_path)
    damage(data_dir)
    with pytest.raises(CorruptSourceError, match="byte 0, offset 0") as raised:
        jobs.compact(spark, str(data_dir), topic=TOPIC, installs=True, at_once=2)
    failed, done = raised.value.results
    assert (failed.outcome, failed.reason) == ("failed", str(raised.value))
    assert (done.outcome, done.records_written) == ("installed", 1)


@full_only  # `test_the_commands_work_on_a_callers_session` also has two at a time
def test_two_partitions_compacted_concurrently_are_correct(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    before = copied(data_dir)
    found = jobs.compact(spark, str(data_dir), topic=TOPIC, installs=True, at_once=2)
    assert [(each.outcome, each.records_written) for each in found] == [("installed", 5), ("installed", 1)]
    assert jobs.verify(spark, str(data_dir), topic=TOPIC, against=str(before)).passed
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None, "the caller's jobs are the caller's"
