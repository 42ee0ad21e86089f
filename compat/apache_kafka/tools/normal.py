"""A tool's output without the parts that differ between runs: addresses, ids, times.

Lines are sorted, as sets have no order.
"""

import re

from .driver import Ended

RULES = (
    (
        re.compile(r"\b(Epoch: |HighWatermark:\s+|MaxFollowerLagTimeMs:\s+|tries=|nextAllowedTryMs=|-?\d+ms)-?\d*"),
        r"\1N",
    ),
    (re.compile(r"^\s+(at|\.\.\.) .*$", re.MULTILINE), ""),  # stack traces
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<![\w.{-])(?=[\w-]*[A-Z0-9])[\w-]{22}(?![\w}-])"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z?"), "DATE"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"/?(127\.0\.0\.1|localhost):\d+"), "HOST:PORT"),
    (re.compile(r"\blocalhost\s+\d+"), "localhost PORT"),
    (re.compile(r"\b\d+ ms\b"), "N ms"),
    (re.compile(r"Request\(processor=.*?\) needs"), "Request(…) needs"),
    (re.compile(r"\b\d+ attempt\(s\)"), "N attempt(s)"),
    # Three records in one batch: the time of the later ones after the first takes one byte each, or two.
    (re.compile(r'(?<="size":)9[345]\b'), "93"),
    (re.compile(r"(?<=ID\t)\d+\s+\d+(?=\s+(TIME|N ms))"), "N N"),  # the end of the metadata log
)
SET = re.compile(r"\[([A-Z_]+(?:, [A-Z_]+)+)\]")
"""Names in an order that is chance."""


def normal(ended: Ended, places: dict[str, str]) -> dict[str, object]:
    """Return the exit code and the lines of both streams."""
    return {"code": ended.code, "out": lines(ended.out, places), "err": lines(ended.err, places)}


def lines(text: str, places: dict[str, str]) -> list[str]:
    for name in sorted(places, key=lambda name: -len(places[name])):
        text = re.sub(rf"{re.escape(places[name])}(?!\d)", f"{{{name}}}", text)
    for pattern, word in RULES:
        text = pattern.sub(word, text)
    text = SET.sub(lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", text)
    return sorted(line for raw in text.splitlines() if (line := re.sub(r"\s+", " ", raw).strip()))
