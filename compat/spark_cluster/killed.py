"""Executors, workers and drivers that are killed while the stages run; and a task that Spark runs twice."""

from itertools import cycle

from ..support.suite import Suite
from .command import Driver, jvm_of, run_here
from .log_under_test import TOPIC, LogUnderTest

OPERATIONS = 10
"""File operations of an attempt of stage 3: the `.part` directory, four files, two renames, three syncs."""
SPARK_FAILED = 6
KILLED = -9
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
}


def judge(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    one_executor(suite, driver, log)
    executors(suite, driver, log)
    workers(suite, driver, log)
    drivers(suite, driver, log)
    jvm(suite, driver, log)
    speculation(suite, driver, log)


def one_executor(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Run the short variant: one executor dies before it renames the finished group."""
    compact_with(suite, driver, log, "an executor is killed", {operations(log)[3][8]: ("executor", "self")})


def executors(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Kill executors in one job: in the first stage, in the second, and before each file operation of the third."""
    orders: dict[str, tuple[str, ...]] = {"scan.3": ("executor", "self"), "merge.1": ("executor", "self")}
    orders |= {operations(log)[number][number]: ("executor", "self") for number in range(OPERATIONS)}
    compact_with(suite, driver, log, f"{len(orders)} executors are killed, one in each stage and operation", orders)


def workers(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Kill a whole worker, and then the only executor that is left; the other worker has to make another."""
    orders = {"merge.1": ("worker", "executor", "self"), operations(log)[2][5]: ("executor", "self")}
    compact_with(suite, driver, log, "a worker is killed, then the other worker's executor", orders)
    driver.cluster.start_missing_workers()


def speculation(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Check a task that stops for ever in the middle of its file; Spark runs another, and kills it."""
    orders: dict[str, tuple[str, ...]] = {operations(log)[4][5]: ("pause",)}
    compact_with(suite, driver, log, "with speculation, a task that does not end", orders, SPECULATION)


def drivers(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Kill drivers of the same plan again and again: each command continues where the one before was killed.

    Every other time the task dies with the driver. Otherwise it continues, next to those of the next command, and may finish
    the operation at which that command was to be killed.
    """
    log.restore()
    codes, finished = list[int](), list[int]()
    for operation, others in zip((None, None, 5, 6, 8, 9), cycle([("self",), ()]), strict=False):
        there = {name for name in log.staged() if name.endswith(".log")}
        missing = [number for number, base in enumerate(log.bases) if f"{base}.log" not in there]
        if not missing:
            break
        moment = ("scan.3", "merge.1")[len(codes)] if operation is None else operations(log)[missing[0]][operation]
        driver.moments.clear()
        command = driver.start("compact", str(log.data), "--topic", TOPIC, "--quiet", "--no-verify")
        driver.moments.order(moment, command.pid, *others)
        codes.append(driver.end_of(command).code)
        finished.append(len({name for name in log.staged() if name.endswith(".log")}))
    suite.check("drivers are killed", codes.count(KILLED) >= 4 and set(codes) <= {KILLED, 0}, codes)
    suite.check(
        "finished work is kept and not repeated",
        finished == sorted(finished),
        f"groups finished after each: {finished} of {len(log.bases)}",
    )
    driver.moments.clear()
    done = driver.run("compact", str(log.data), "--topic", TOPIC, "--resume", "--quiet")
    suite.equal("the plan is resumed", (0, ""), (done.code, done.refusal))
    again = {name.split(".")[0] for name, _ in driver.moments.reached() if name.endswith(".make_dir")}
    suite.check("and only the groups that were missing are written", len(again) <= len(log.bases) - finished[-1])
    judge_result(suite, log)


def jvm(suite: Suite, driver: Driver, log: LogUnderTest) -> None:
    """Kill only the driver's JVM: the command must report that."""
    log.restore()
    driver.moments.clear()
    command = driver.start("compact", str(log.data), "--topic", TOPIC, "--quiet", "--no-verify")
    driver.moments.order(operations(log)[1][6], jvm_of(command).pid)
    done = driver.end_of(command)
    suite.check("the driver's JVM is killed: exit code 6", done.code == SPARK_FAILED, done.refusal or done.err[-300:])
    suite.check("the log is untouched", log.untouched())
    done = driver.run("compact", str(log.data), "--topic", TOPIC, "--resume", "--quiet", "--no-verify")
    suite.equal("the plan is resumed", (0, ""), (done.code, done.refusal))
    judge_result(suite, log)


def compact_with(
    suite: Suite,
    driver: Driver,
    log: LogUnderTest,
    what: str,
    orders: dict[str, tuple[str, ...]],
    confs: dict[str, str] | None = None,
) -> None:
    """Run one command, during which these moments have these victims; it must succeed, with the same files."""
    log.restore()
    driver.moments.clear()
    for moment, victims in orders.items():
        driver.moments.order(moment, *victims)
    done = driver.run("compact", str(log.data), "--topic", TOPIC, "--quiet", "--no-verify", confs=confs)
    suite.check(f"{what}: the job ends", done.code == 0, done.refusal)
    suite.equal("and all of it has happened", [], driver.moments.left())
    judge_result(suite, log)


def judge_result(suite: Suite, log: LogUnderTest) -> None:
    """Judge the staged files, then the installed ones, then a consumer's view."""
    suite.equal("the files are what they must be", log.expected, log.staged())
    suite.equal("no attempt has left anything", [], log.parts())
    suite.check("the log is untouched", log.untouched())
    done = run_here("install", str(log.data), "--topic", TOPIC, "--quiet")
    suite.equal("it is installed", (0, ""), (done.code, done.refusal))
    suite.equal("the log has these files and no others", log.expected, log.installed())
    suite.check("a consumer sees the newest value of each key", log.served() == log.values, f"{len(log.values)} keys")


def operations(log: LogUnderTest) -> list[list[str]]:
    """Return the names of stage 3's moments, group by group."""
    names = ("make_dir", "open", "open", "open", "sync_dir", "open", "rename", "sync_dir", "rename", "sync_dir")
    assert len(names) == OPERATIONS
    return [[f"{base}.{number}.{name}" for number, name in enumerate(names)] for base in log.bases]
