"""Apache Kafka's own command line tools: their output against Ottla compared with that against Apache Kafka.

The commands are in `themes/`, their output against Apache Kafka in `recorded/`. A theme is one run of a broker.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...support.brokers.apache_kafka import METADATA_VERSION
from ...support.brokers.ottla_process import ottla_command
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..suite.baseline import kafka_command
from .driver import Ended, Tools
from .normal import normal
from .serving import serving
from .themes import Step, Theme, filled, theme, theme_names

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
DIFFERENCES = HERE / "differences.json"
UNTIL_S = 15
QUICK = ("acls", "configs")
TOKEN = re.compile(r"^([\w-]{22})\s+(\S{80,})", re.MULTILINE)
Answer = dict[str, Any]


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    rest = options.rest
    names = rest.themes or (QUICK if options.quick else theme_names())
    if unknown := [name for name in names if name not in theme_names()]:
        raise NotRunError(f"themes called {', '.join(unknown)}, and there are none")
    known = json.loads(DIFFERENCES.read_text()) if DIFFERENCES.exists() else {}
    with Tools() as tools:
        for name in names:
            play = theme(name)
            kafka = rest.live or options.against == "apache-kafka"
            try:
                answers = answered(tools, play, kafka_command() if kafka else ottla_command())
            except RuntimeError as error:
                suite.check(f"{name}: its {len(play.steps)} commands are run", False, error)
                continue
            if rest.live:
                record(name, play, answers)
                suite.check(f"{name}: {len(answers)} commands recorded", bool(answers))
                continue
            recorded = json.loads((RECORDED / f"{name}.json").read_text())
            ours = {} if options.against == "apache-kafka" else known.get(name, {})
            compare(suite, name, recorded, [[step.line for step in play.steps], answers], ours)
            if rest.out:
                rest.out.mkdir(parents=True, exist_ok=True)
                (rest.out / f"{name}.json").write_text(written(play, answers))


def answered(tools: Tools, play: Theme, command: Sequence[str], metadata: str = METADATA_VERSION) -> list[Answer]:
    """Return the answer of each command of the theme against a new broker. RuntimeError when the broker does not start."""
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory(prefix="tools-") as folder:
        work = Path(folder)
        with serving(command, play.config, work, metadata) as places:
            for step in play.steps:
                for name, text in step.files:
                    (work / name).write_text(filled(text, places))
                ended = run_step(tools, step, places)
                places |= tokens_of(ended, places)
                answers.append(normal(ended, places))
    return answers


def run_step(tools: Tools, step: Step, places: dict[str, str]) -> Ended:
    """Run the command, and repeat it until its output has the expected text."""
    main_class, arguments = step.words(places)
    deadline = time.monotonic() + UNTIL_S
    while True:
        ended = tools.run(main_class, arguments, step.stdin)
        if step.until in ended.out + ended.err or time.monotonic() > deadline:
            return ended
        time.sleep(0.1)


def tokens_of(ended: Ended, places: dict[str, str]) -> dict[str, str]:
    """Delegation tokens that were not seen before: {id-1} and {hmac-1} are the first one's."""
    new = [row for row in TOKEN.findall(ended.out) if row[1] not in places.values()]
    seen = sum(name.startswith("hmac-") for name in places)
    return {
        f"{kind}-{number}": value
        for number, row in enumerate(new, seen + 1)
        for kind, value in zip(("id", "hmac"), row, strict=True)
    }


def record(name: str, play: Theme, answers: list[Answer]) -> None:
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.json").write_text(written(play, answers))


def written(play: Theme, answers: list[Answer]) -> str:
    rows = [{"command": step.line, **answer} for step, answer in zip(play.steps, answers, strict=True)]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def compare(
    suite: Suite, name: str, recorded: list[Answer], found: list[Any], known: dict[str, dict[str, Any]]
) -> None:
    """Check each command: its output is as recorded, or differs exactly as in `known`."""
    commands, answers = found
    if [row["command"] for row in recorded] != commands:
        suite.check(f"{name}: the recorded commands are those of the theme", False, "record them anew with --live")
        return
    for number, (row, answer) in enumerate(zip(recorded, answers, strict=True), 1):
        what = f"{name} {number}: {row['command']}"
        different = difference(row, answer)
        expected = known.get(f"{number}: {row['command']}")
        if expected is None:
            suite.check(what, not different, "; ".join(different) if different else "")
        elif different == expected["difference"]:
            suite.skip(what, expected["reason"])
        elif not different:
            suite.check(what, False, "as Apache Kafka's now: its entry in differences.json is stale")
        else:
            suite.check(what, False, "; ".join(different))


def difference(theirs: Answer, ours: Answer) -> list[str]:
    """Return lines of Apache Kafka's that are missing (`- `) and lines that it does not have (`+ `), the exit code first."""
    shown = [f"- exit {theirs['code']}", f"+ exit {ours['code']}"] if theirs["code"] != ours["code"] else []
    for stream in ("out", "err"):
        mine: Counter[str] = Counter(ours[stream])
        yours: Counter[str] = Counter(theirs[stream])
        shown += [f"- {line}" for line in sorted((yours - mine).elements())]
        shown += [f"+ {line}" for line in sorted((mine - yours).elements())]
    return shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("themes", nargs="*", metavar="THEME", help=f"of {', '.join(theme_names())}; all by default")
    parser.add_argument("--live", action="store_true", help="record Apache Kafka's answers again")
    parser.add_argument("--out", type=Path, help="folder for the tools' answers")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.tools", body, doc=__doc__, more_arguments=add_arguments))
