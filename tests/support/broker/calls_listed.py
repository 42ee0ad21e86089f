"""The list of calls in docs/admin.md, made from the table by which the listener answers.

`python -m support.broker.calls_listed`, in tests/ with the environment's Python, rewrites it.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import ottla
from ottla.server.http.call import Call, Text
from ottla.server.http.fields import fields_of
from ottla.server.http.openapi import subject
from ottla.server.http.table import CALLS

GUIDE = Path(ottla.__file__).parent / "docs" / "admin.md"
BEGIN, END = "<!-- calls: begin -->\n", "<!-- calls: end -->\n"


def calls_listed() -> str:
    """Return the list as Markdown: one table for each subject."""
    found = []
    for name, calls in groupby(sorted(CALLS, key=subject), key=subject):
        found += [
            f"\n**{name}**\n",
            "| call | what it does | fields | answer |",
            "|---|---|---|---|",
            *map(_row, calls),
        ]
    return "\n".join([*found, "", ""])


def _row(call: Call[Any, Any]) -> str:
    in_path = re.findall(r"\{(\w+)\}", call.path)
    fields = [
        f"`{name}`" if field.is_required else f"[`{name}`]"
        for name, field in fields_of(call.request).items()
        if name not in in_path
    ]
    answer = "text" if call.answer is Text else ", ".join(f"`{name}`" for name in fields_of(call.answer)) or "`{}`"
    return f"| `{call.method} {call.path}` | {call.doc} | {' '.join(fields)} | {answer} |"


if __name__ == "__main__":
    before, _, rest = GUIDE.read_text().partition(BEGIN)
    GUIDE.write_text(f"{before}{BEGIN}{calls_listed()}{END}{rest.partition(END)[2]}")
