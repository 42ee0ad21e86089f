"""The three ways to wait: as a method of `ottla.Broker`, as `ottla wait`, over HTTP. Each returns the sentence of a timeout, or nothing."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import ottla

from ..support.brokers.ottla_process import ottla_command

Wait = Callable[[ottla.Broker, str, float], str]
"""A way to wait: the broker, `reading TOPIC GROUP`, `consumed TOPIC GROUP` or `stable GROUP MEMBERS`, the limit in seconds."""


def by_method(broker: ottla.Broker, what: str, timeout_s: float) -> str:
    kind, first, second = what.split()
    try:
        if kind == "stable":
            broker.wait_until_stable(first, members=int(second), timeout_s=timeout_s)
        else:
            wait = broker.wait_until_reading if kind == "reading" else broker.wait_until_consumed
            wait(first, second, timeout_s=timeout_s)
    except ottla.ControlError as error:
        return str(error)
    return ""


def by_command(broker: ottla.Broker, what: str, timeout_s: float) -> str:
    kind, first, second = what.split()
    words = {
        "reading": [first, "--group", second],
        "consumed": [first, second],
        "stable": [first, "--members", second],
    }
    limit = f"{round(timeout_s * 1000)}ms"
    command = [*ottla_command(), "wait", kind, *words[kind], "--timeout", limit, "--admin", str(broker.admin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip().removeprefix("ottla: ") or f"exit code {done.returncode}" if done.returncode else ""


def by_http(broker: ottla.Broker, what: str, timeout_s: float) -> str:
    kind, first, second = what.split()
    path = f"groups/{first}/stable" if kind == "stable" else f"topics/{first}/{kind}"
    query = {"members" if kind == "stable" else "group": second, "timeout_ms": round(timeout_s * 1000)}
    try:
        address = f"http://{broker.admin}/v1/{path}?{urllib.parse.urlencode(query)}"
        urllib.request.urlopen(address, timeout=timeout_s + 30).close()
    except urllib.error.HTTPError as error:
        with error:
            return str(json.load(error)["error"])
    return ""
