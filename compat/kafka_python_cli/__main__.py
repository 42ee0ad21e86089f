"""kafka-python's console tools, command by command: the same output as against Apache Kafka.

Runs every command of `steps.py` on a new broker, removes what differs between runs (ids, ports, times, paths)
and compares with Apache Kafka's output: `apache_kafka.json`, recorded by `--record`. Intended differences are
in `differences.json` with their reasons.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..support.brokers.any_broker import any_broker
from ..support.suite import Options, Suite, run_suite
from .normalise import differences, normalised
from .steps import STEPS, Step

HERE = Path(__file__).parent
RECORDING = HERE / "apache_kafka.json"
MEANT = HERE / "differences.json"
TIMEOUT_S = 60
BROKER = {"group.initial.rebalance.delay.ms": "0"}


def body(suite: Suite, options: Options) -> None:
    with any_broker(options, BROKER) as broker:
        outputs = run_steps(broker.bootstrap)
    if options.rest.record:
        RECORDING.write_text(json.dumps(outputs, indent=1, sort_keys=True) + "\n")
        suite.check("recorded", len(outputs) == len(STEPS), RECORDING.name)
        return
    recorded = json.loads(RECORDING.read_text())
    meant = {} if options.against == "apache-kafka" else json.loads(MEANT.read_text())
    for name, output in outputs.items():
        found = differences(recorded.get(name), output)
        unexpected = [line for line in found if not any(line.startswith(path) for path in meant.get(name, {}))]
        stale = [path for path in meant.get(name, {}) if not any(line.startswith(path) for line in found)]
        detail = "\n            ".join(["", *unexpected[:12]]) if unexpected else ""
        suite.check(name, not unexpected, detail)
        if stale:
            suite.check(f"{name}: the intended differences occur", False, f"no longer: {stale}")
    suite.equal("every recorded command was run", sorted(recorded), sorted(outputs))


def run_steps(bootstrap: str) -> dict[str, Any]:
    """Run all steps in order; return normalised outputs under the command, with `(again)` for a repeated one."""
    outputs: dict[str, Any] = {}
    uuid = ""
    for step in STEPS:
        name = step.command
        while name in outputs:
            name += " (again)"
        raw = run(bootstrap, step, uuid)
        if step.command == "admin topics describe -t plain" and raw["exit"] == 0:
            uuid = raw["json"][0].get("topic_id", "")
        outputs[name] = normalised(raw)
    return outputs


def run(bootstrap: str, step: Step, uuid: str) -> dict[str, Any]:
    """Run one command; return exit code, standard output (`json` if it is JSON, else `lines`) and last complaint."""
    program, *words = shlex.split(step.command.format(uuid=uuid))
    connect = ["-b", bootstrap, "-l", "CRITICAL"]
    command = [sys.executable, "-m", f"kafka.{program}", *connect]
    if program == "admin":
        command += ["--format", step.format]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            [*command, *words],
            input=step.stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"exit": "still running"}
    output: dict[str, Any] = {"exit": done.returncode, "stderr": done.stderr.strip().splitlines()[-1:]}
    try:
        output["json"] = json.loads(done.stdout)
    except ValueError:
        output["lines"] = done.stdout.splitlines()
    return output


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="write apache_kafka.json (with --against apache-kafka)")


if __name__ == "__main__":
    sys.exit(run_suite("kafka_python_cli", body, doc=__doc__, more_arguments=arguments))
