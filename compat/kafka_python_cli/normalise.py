"""Takes out of a command's output what differs from run to run, and lists what differs otherwise."""

import json
import re
from typing import Any

PATTERNS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\b1\d{12}\b"), "<time>"),
    (re.compile(r"/\S*/compat-[a-z-]+-\w+/data"), "<folder>"),
    # Error codes are compared, the wording of messages is each broker's own.
    (re.compile(r"error_message=(None|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"), "error_message=<text>"),
    (re.compile(r"(\[Error \d+\] \w+): (?!Request ).*"), r"\1: <text>"),
)
BY_NAME = {
    "cluster_id": "<id>",
    "port": "<port>",
    "log_dir": "<folder>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "finalized_epoch": "<number>",
    "high_watermark": "<number>",
    "log_end_offset": "<number>",
}


def normalised(value: Any, name: str = "") -> Any:
    """`value` with ids, ports, times, sizes and folders replaced by words, and lists but `lines` sorted."""
    if name in BY_NAME and value is not None:
        return BY_NAME[name]
    if name == "partition_size" and value:
        return "<bytes>"  # depends on how the producer cut its batches
    if isinstance(value, dict):
        return {key: normalised(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        items = [normalised(inner) for inner in value]
        return items if name == "lines" else sorted(items, key=json.dumps)
    if isinstance(value, int) and not isinstance(value, bool) and 10**12 < value < 2 * 10**12:
        return "<time>"
    if isinstance(value, str):
        for pattern, word in PATTERNS:
            value = pattern.sub(word, value)
    return value


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Return one line a difference, `PATH: Apache Kafka …, here …`; empty when equal."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        lines = []
        for key in sorted(expected.keys() | actual.keys()):
            inner = f"{path}.{key}" if path else key
            if key not in actual:
                lines.append(f"{inner}: Apache Kafka {_short(expected[key])}, here missing")
            elif key not in expected:
                lines.append(f"{inner}: not in Apache Kafka, here {_short(actual[key])}")
            else:
                lines += differences(expected[key], actual[key], inner)
        return lines
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = zip(expected, actual, strict=True)
        return [line for at, pair in enumerate(pairs) for line in differences(*pair, f"{path}[{at}]")]
    if expected == actual:
        return []
    if isinstance(expected, str) and isinstance(actual, str):
        letters = enumerate(zip(expected, actual, strict=False))
        same = max(0, next((at for at, (left, right) in letters if left != right), 0) - 40)
        expected, actual = ("…" * (same > 0) + text[same:] for text in (expected, actual))
    return [f"{path}: Apache Kafka {_short(expected)}, here {_short(actual)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 400 else text[:400] + "…"
