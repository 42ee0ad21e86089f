"""The table of the format's options in docs/spark.md, as the code has them.

cd tests && python -m support.texts.read_options_table      writes it anew
"""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.source.read_options import FS_PREFIX, OPTIONS

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
BEGIN, END = "<!-- options: made by support.texts.read_options_table -->\n", "<!-- end of options -->\n"


def table() -> str:
    """Rows of Markdown."""
    rows = ["| option | value | default | |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        of = f" ({option.of} only)" if option.of else ""
        form = option.form.replace("|", "\\|")
        rows.append(f"| `{name}` | {_as_code(form)} | {option.default} | {option.means}{of} |")
    rows.append(f"| `{FS_PREFIX}…` | of the store | | where `path` is an address: `{FS_PREFIX}s3.region`, … |")
    return "\n".join(rows) + "\n"


def _as_code(form: str) -> str:
    """JSON in backticks: braces are nobody's Markdown, but quotes become others."""
    begin = form.find("{")
    return form if begin < 0 else f"{form[:begin]}`{form[begin:]}`"


def page() -> str:
    """The page with the table of now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
