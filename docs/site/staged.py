"""The Markdown texts of the repository as sources of the site: where each goes, and its links with it.

The repository's texts are written to be read where they lie. On the site `docs/` is the top, the front page is README.md with
`docs/index.md` behind it, and what a link names that is no text (a folder, a test) is where the project keeps its source.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
INDEX = "docs/index.md"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
PICTURES = (".svg", ".png")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def texts() -> list[str]:
    """Every Markdown text of the work tree, from its root, but for pieces of the next section of CHANGELOG.md."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", ":!changes"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [path for path in found if (ROOT / path).exists()]


def source_url() -> str | None:
    """Where the project's files are to be seen, without a slash at the end; None if pyproject.toml does not say."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    return f"{urls['Source'].rstrip('/')}/blob/main" if "Source" in urls else None


def stage(target: Path) -> None:
    """Write all sources into the empty directory `target`."""
    names = texts()
    places = {name: _place(name) for name in names}
    for name in names:
        if name not in ("README.md", INDEX):
            text = _with_links((ROOT / name).read_text(), name, places)
            _write(target / places[name], text if name in navigated() else f"---\norphan: true\n---\n\n{text}")
    front = _with_links((ROOT / "README.md").read_text(), "README.md", places)
    index = _with_links((ROOT / INDEX).read_text(), INDEX, places)
    _write(target / "index.md", f"{front}\n{_demoted(index)}\n{_tables_of_contents(places)}")
    for folder in ("docs", "compat"):
        for picture in (each for suffix in PICTURES for each in (ROOT / folder).rglob(f"*{suffix}")):
            path = target / _place(str(picture.relative_to(ROOT)))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture.read_bytes())


def sections() -> dict[str, list[str]]:
    """The headings of `docs/index.md`, each with the texts that it links to: the site's navigation."""
    found: dict[str, list[str]] = {}
    for heading, path in re.findall(r"^## (.*)$|^- \[[^\]]*\]\(([^)#]+)\)", (ROOT / INDEX).read_text(), re.MULTILINE):
        if heading:
            found[heading] = []
        else:
            found[list(found)[-1]].append(os.path.normpath(f"docs/{path}"))
    return found


def navigated() -> set[str]:
    """The texts that the navigation leads to."""
    return {path for paths in sections().values() for path in paths}


def _place(name: str) -> str:
    if name in ("README.md", INDEX):
        return "index.md"
    return name.removeprefix("docs/")


def _with_links(text: str, name: str, places: dict[str, str]) -> str:
    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(_moved(name, places), part) for part in parts[::2]]
    return "".join(parts)


def _moved(name: str, places: dict[str, str]) -> Callable[[re.Match[str]], str]:
    url = source_url()

    def moved(link: re.Match[str]) -> str:
        shown, path, anchor = link[1], link[2], link[3] or ""
        at_home = path.removeprefix(f"{url}/")
        if path == at_home and (not path or ":" in path):
            return link[0]
        target = at_home if path != at_home else os.path.normpath(PurePosixPath(name).parent / path)
        if not (ROOT / target).exists():
            raise SystemExit(f"{name} links to {path}, which is not there")
        if target in places or target.endswith(PICTURES):
            return f"[{shown}]({os.path.relpath(places.get(target, _place(target)), PurePosixPath(places[name]).parent)}{anchor})"
        return f"[{shown}]({url}/{target})" if url else shown

    return moved


def _demoted(text: str) -> str:
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def _tables_of_contents(places: dict[str, str]) -> str:
    return "\n".join(_contents(places))


def _contents(places: dict[str, str]) -> Iterator[str]:
    for heading, paths in sections().items():
        pages = "\n".join(places[path] for path in paths)
        yield f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
