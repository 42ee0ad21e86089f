"""The table of the format's options in docs/spark.md, made from the code.

cd tests && python -m support.texts.read_options_table      rewrites it
"""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.source.read_options import FS_PREFIX, OPTIONS

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
BEGIN, END = "<!-- options: made by support.texts.read_options_table -->\n", "<!-- end of options -->\n"


def table() -> str:
    """Return rows of Markdown."""
    rows = ["| option | value | default | |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        of = f" ({option.of} only)" if option.of else ""
        form = option.form.replace("|", "\\|")
        rows.append(f"| `{name}` | {_as_code(form)} | {option.default} | {option.means}{of} |")
    rows.append(f"| `{FS_PREFIX}…` | of the store | | where `path` is an address: `{FS_PREFIX}s3.region`, … |")
    return "\n".join(rows) + "\n"


def _as_code(form: str) -> str:
    """Put JSON in backticks: braces are harmless in Markdown, but quotes would be replaced."""
    begin = form.find("{")
    return form if begin < 0 else f"{form[:begin]}`{form[begin:]}`"


def page() -> str:
    """Return the page with the up-to-date table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
