"""docs/hard-cases.md: its middle is made from the table of cases.

python tests/support/cases/case_table.py      writes it anew
"""

from __future__ import annotations

from pathlib import Path

from ottla.server.control.cases.table import CASES, Case, Expected

PAGE = Path(__file__).parents[3] / "docs" / "hard-cases.md"
BEGIN, END = "<!-- cases: begin -->\n", "<!-- cases: end -->\n"
COMMAND = "python tests/support/cases/case_table.py"


def made() -> str:
    """The page as it should be."""
    text = PAGE.read_text()
    return (
        text[: text.index(BEGIN) + len(BEGIN)]
        + "\n"
        + "\n".join(map(section, CASES.values()))
        + text[text.index(END) :]
    )


def section(case: Case) -> str:
    threads = ", ".join(f"[{thread.removeprefix('https://github.com/')}]({thread})" for thread in case.threads)
    lines = [
        f"### {case.name}",
        "",
        f"{case.looks_like} *Reveals:* {case.reveals[0].lower()}{case.reveals[1:]} ({threads})",
        "",
    ]
    lines.append(f"- offsets {case.start_offset} to {case.end_offset}, and a consumer ends at {case.position}")
    lines.append(f"- `read_uncommitted`: {rows(case.read_with('read_uncommitted'))}")
    lines.append(f"- `read_committed`: {same_or(case)}")
    if case.offsets_for_times:
        found = ", ".join(
            f"+{at_ms} ms: {'none' if offset is None else offset}" for at_ms, offset in case.offsets_for_times
        )
        lines.append(f"- searches by time: {found}")
    return "\n".join([*lines, ""])


def same_or(case: Case) -> str:
    committed = case.read_with("read_committed")
    return "the same" if committed == case.read_with("read_uncommitted") else rows(committed)


def rows(records: tuple[Expected, ...]) -> str:
    return (
        ", ".join(f"{each.offset} `{each.key}={'null' if each.value is None else each.value}`" for each in records)
        or "nothing"
    )


if __name__ == "__main__":
    PAGE.write_text(made())
