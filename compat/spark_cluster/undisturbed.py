"""Every command on the cluster: its output and results compared with those of the same command without Spark."""

import json
import shutil
from pathlib import Path

from ..support.suite import Suite
from .command import Driver, run_here
from .figures import event_log, shuffled_bytes, task_metrics
from .log_under_test import TOPIC, LogUnderTest


def judge(suite: Suite, driver: Driver, log: LogUnderTest, work: Path) -> None:
    log.restore()
    driver.moments.clear()
    topic = ("--topic", TOPIC, "--quiet")
    done = driver.run("plan", str(log.data), *topic, "--json")
    suite.check("plan: the pending one", done.code == 0 and log.plan_id in done.out, done.refusal)
    done = driver.run("compact", str(log.data), *topic, "--no-verify", "--json", confs=event_log(work / "log"))
    suite.check("compact", done.code == 0, done.refusal)
    shuffled = shuffled_bytes(task_metrics(work / "log"))
    (result,) = json.loads(done.out)["partitions"]
    records = result["records_read"]
    suite.note(
        f"{records} records to {result['records_written']}; shuffled bytes a record, stage by stage:"
        f" {', '.join(f'{each / records:.2f}' for each in shuffled)}"
    )
    suite.equal("its files are those of --master none and of the server's cleaner", log.expected, log.staged())
    suite.equal("no attempt has left anything", [], log.parts())
    both_worked(suite, driver)
    submitted(suite, driver, log)
    done = driver.run("verify", str(log.data), "--plan", log.plan_id, "--quiet")
    suite.check("verify --plan, staged", done.code == 0, done.refusal or done.out.strip())
    before = work / "before"
    shutil.copytree(log.data, before)
    done = driver.run("install", str(log.data), *topic)
    suite.check("install", done.code == 0, done.refusal or done.out.strip())
    suite.equal("the log has these files and no others", log.expected, log.installed())
    done = driver.run("verify", str(log.data), *topic, "--against", str(before))
    suite.check("verify --against", done.code == 0, done.refusal or done.out.strip())
    shutil.rmtree(before)
    snapshots(suite, driver, log, work)
    done = driver.run("read", str(log.data), *topic)
    here = run_here("read", str(log.data), *topic)
    suite.check("read: as without Spark", done.code == 0 and done.out == here.out, f"{done.out.count(chr(10))} records")
    done = driver.run("status", str(log.data), *topic, "--json")
    (found,) = json.loads(done.out)["plans"]
    suite.check("status", found["is_complete"] and found["staged"] == found["installed"] == len(log.bases), found)
    suite.check("a consumer sees the newest value of each key", log.served() == log.values, f"{len(log.values)} keys")


def submitted(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    ran = driver.cluster.applications()
    done = driver.submit("verify", str(log.data), "--topic", TOPIC, "--quiet")
    suite.check("verify, by spark-submit", done.code == 0, done.refusal or done.out.strip())
    suite.equal("it ran on the cluster", ran + 1, driver.cluster.applications())


def snapshots(suite: Suite, driver: Driver, log: LogUnderTest, work: Path) -> None:
    import pyarrow.parquet

    made = work / "snapshot-by-cluster", work / "snapshot-here"
    done = driver.run("snapshot", str(log.data), "--topic", TOPIC, "--quiet", "--out", str(made[0]))
    here = run_here("snapshot", str(log.data), "--topic", TOPIC, "--quiet", "--out", str(made[1]))
    suite.equal("snapshot", (0, 0), (done.code, here.code))
    tables = [pyarrow.parquet.read_table(each).sort_by("offset") for each in made]
    suite.check("its rows are those of --master none", tables[0].equals(tables[1]), f"{tables[0].num_rows} rows")
    rows = zip(tables[0]["key"].to_pylist(), tables[0]["value"].to_pylist(), strict=True)
    suite.check("and the newest value of each key", dict(rows) == log.values)
    for each in made:
        shutil.rmtree(each)


def both_worked(suite: Suite, driver: Driver) -> None:
    """Check the executors' working directories, which are inside those of their workers."""
    for stage in ("scan.", "0"):
        workers = {place.rpartition("/app-")[0] for name, place in driver.moments.reached() if name.startswith(stage)}
        what = "segments are scanned" if stage == "scan." else "groups are written"
        suite.check(
            f"{what} on both workers", len(workers) == 2, ", ".join(sorted(Path(each).name for each in workers))
        )
