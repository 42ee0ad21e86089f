"""Documentation: every link has a target, and every file that a text names exists."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from compat.bench.readme import __main__ as figures

from ottla.protocol.apis import APIS
from ottla.storage.cleaning.eligibility import BlockedReason
from support.noted import each_case

ROOT = Path(__file__).parents[1]
TEXTS = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.split()
# Texts about the present; CHANGELOG.md names files that no longer exist.
GUIDES = [text for text in TEXTS if text in ("DESIGN.md", "CONTRIBUTING.md", "README.md") or text.startswith("docs/")]
FOLDERS = "protocol|storage|server|pipeline|tests|compat|docs|examples|docker|typings"


def anchors(text: str) -> set[str]:
    """Return the anchors that links may have after the #, as GitHub derives them from headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_case("text", TEXTS)
def test_links_lead_somewhere(text: str) -> None:
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / text).read_text()):
        path, _, anchor = link.partition("#")
        target = ROOT / text if not path else (ROOT / text).parent / path
        if ":" not in link and not (target.exists() and (not anchor or anchor in anchors(target.read_text()))):
            missing.append(link)
    assert missing == []


@each_case("text", GUIDES)
def test_files_and_folders_that_are_named_are_there(text: str) -> None:
    """Names may lack `.py`; a place for a new file is written with <…>."""
    named = re.findall(rf"(?<![\w/.<-])((?:{FOLDERS})/[\w./<>*-]*[\w>*])", (ROOT / text).read_text())
    missing = [each for each in named if not set(each) & set("<>") and not _is_there(each)]
    assert missing == []


def test_the_index_of_docs_names_each_of_its_pages_once() -> None:
    """The index is the navigation of the site that `make docs` builds: a new page gets a line there."""
    named = re.findall(r"^- \[[^\]]+\]\(([^)#/]+)\)", (ROOT / "docs/index.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "index.md")


def test_each_decision_is_a_page_of_three_parts_and_has_its_line_in_the_index() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    titles = {page.name: re.match(r"# (\d+)\. (.*)", page.read_text()) for page in pages}
    assert [name for name, title in titles.items() if title is None or int(name[:4]) != int(title[1])] == []
    lines = re.findall(r"^- \[(.*)\]\((.*)\) \((\d+)\)$", (ROOT / "docs/decisions/index.md").read_text(), re.MULTILINE)
    assert sorted((name, title, number) for title, name, number in lines) == [
        (name, title[2], title[1]) for name, title in titles.items() if title is not None
    ]
    parts = ["Context", "Decision", "Consequences"]
    assert [page.name for page in pages if re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) != parts] == []


def test_the_design_is_short_and_the_glossary_has_few_words_in_order() -> None:
    assert (ROOT / "DESIGN.md").stat().st_size <= 15_000
    glossary = (ROOT / "docs/glossary.md").read_text()
    for section in (sections := glossary.split("\n## ")[1:]):
        assert (words := re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)) == sorted(words)
    assert sum(section.count("\n- **") for section in sections) <= 20


def test_each_api_is_among_the_supported_features() -> None:
    page = (ROOT / "docs/served.md").read_text()
    assert [api.name for api in APIS.values() if not re.search(rf"\b{api.name}\b", page)] == []


def test_no_cell_of_a_table_is_longer_than_25_words() -> None:
    """The rule is for pages that are written by hand. A longer text is a list or a section with a heading."""
    generated = ("commands.md", "configuration.md", "metrics.md", "options-without-effect.md", "python-api.md")
    made = re.compile(r"<!-- (calls|options|rights).*?(end|rights|options) -->", re.DOTALL)
    long = []
    for path in [ROOT / "README.md", *(each for each in (ROOT / "docs").glob("*.md") if each.name not in generated)]:
        text = re.sub(r"`[^`]*`|\]\([^)]*\)", " x ", made.sub("", path.read_text()))
        cells = [cell for row in re.findall(r"^\|(.*)\|$", text, re.MULTILINE) for cell in row.split("|")]
        long += [f"{path.name}: {cell}" for cell in cells if len(re.findall(r"\w[\w.'’-]*", cell)) > 25]
    assert long == []


def test_what_troubleshooting_quotes_is_said_by_the_code() -> None:
    """The first column of its tables has Ottla's own messages, with … for the variable parts."""
    files = [path for floor in ("protocol", "storage", "server", "pipeline") for path in (ROOT / floor).rglob("*.py")]
    code = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    quoted = [piece.strip(" ,") for row in rows for text in re.findall(r"`([^`]+)`", row) for piece in text.split("…")]
    assert len(quoted) > 30
    assert [piece for piece in quoted if piece not in code] == []


def test_each_reason_why_a_topic_is_not_compacted_has_a_remedy() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/explaining.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(each.value for each in BlockedReason)


def test_steps_of_the_paths_are_calls_that_there_are() -> None:
    steps = re.findall(rf"^((?:{FOLDERS})/[\w/]+) +(\w+)  +\S", (ROOT / "DESIGN.md").read_text(), re.MULTILINE)
    assert len(steps) > 20
    assert [
        (m, name) for m, name in steps if not re.search(rf"(def|class) {name}\b", (ROOT / f"{m}.py").read_text())
    ] == []


def test_rooms_are_drawn_as_their_contracts_have_them() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for floor in ("server", "storage", "pipeline"):
        (layers,) = (each["layers"] for each in contracts if each.get("containers") == [f"ottla.{floor}"])
        drawing = re.findall(
            rf"^\*\*{floor}\*\*\n```text\n(.*?)^```", (ROOT / "DESIGN.md").read_text(), re.MULTILINE | re.DOTALL
        )
        rooms = [line.split("  ")[0] for line in drawing[0].splitlines()]
        assert "\n".join(rooms).replace("\n| ", " | ").split("\n") == [each for each in layers if each != "__main__"]


def _is_there(path: str) -> bool:
    return any(ROOT.glob(path)) or any(ROOT.glob(f"{path}.py"))


def test_the_first_line_of_the_readme_has_the_first_measured_figure() -> None:
    readme = (ROOT / "README.md").read_text()
    figures.check(readme)
    assert figures.SENTENCE.findall(readme) == re.findall(r"\d\.\d\d s", figures.between(readme))[:1]


def test_new_figures_replace_the_old_ones_in_the_first_line_and_the_sentences() -> None:
    readme = "no containers, no JVM, 0.26 s. More\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nbelow\n"
    figures.check(readme)
    assert figures.rewritten(readme, figures.Figures("0.19 s", "0.14 s", "0.003 s", "48 MB"), "Compared.", "today") == (
        "no containers, no JVM, 0.19 s. More\n<!-- figures: begin -->\n"
        "`ottla serve` starts in 0.19 s, the first `ottla.Broker()` of a process in 0.14 s and each later one in 0.003 s;"
        " an idle broker uses 48 MB.\n"
        "Compared.\nMeasured today; [method and all figures](compat/bench/README.md).\n<!-- figures: end -->\nbelow\n"
    )
    with pytest.raises(figures.NotMeasuredError, match=r"^README\.md has no lines"):
        figures.check("another text")


def test_the_readme_begins_with_what_works_from_a_clone() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()[:30]
    named = re.findall(r"^make (\S+)", "\n".join(lines), re.MULTILINE)
    assert named == ["run", "test"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(named) <= {*targets}
    assert any("pip install ." in line for line in lines)
