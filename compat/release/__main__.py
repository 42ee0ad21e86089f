"""`make release`: all published files of one version, into dist/, audited, and built twice to check that both are equal.

The last commit is built. Exit code 0: all files are in dist/; 1: the error is printed, and dist/ is unchanged.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..lower_bounds.bounds import audited, lowest, tools
from ..support.suite import NotRunError
from . import audits, papers
from .bases import by_tag
from .contents import sdist_contents, wheel_contents
from .notes import is_unreleased, release_notes
from .source import ROOT, Source, committed, is_changed, last_commit, sdist
from .wheels import wheels


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.release", description=__doc__)
    parser.add_argument(
        "--dist", type=Path, default=ROOT / "dist", help="where to; what is there goes (default: dist/)"
    )
    parser.add_argument(
        "--tag", help="the tag that is published: refuse unless it is v and the version, and its changes are dated"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-release-") as name:
        work = Path(name)
        wrong = list(refusals(options.tag)) or list(advisories(options.tag, work)) or list(release(work))
        for problem in wrong:
            print(f"WRONG {problem}", flush=True)
        if wrong:
            return 1
        shutil.rmtree(options.dist, ignore_errors=True)
        shutil.copytree(work / "first" / "dist", options.dist)
    for path in sorted(options.dist.iterdir()):
        print(f"{path.stat().st_size:>10}  {path.name}")
    return 0


def refusals(tag: str | None) -> Iterator[str]:
    """Yield the reasons why this commit must not be published."""
    source, changelog = Source(ROOT, 0), (ROOT / "CHANGELOG.md").read_text()
    if is_changed():
        told = "there are changes that are not committed, and would not be in it"
        if tag:
            yield told
        else:
            print(f"note: {told}")
    if source.url is None:
        told = "[project.urls] in pyproject.toml names no Source: the description on the package index has no links"
        if tag:
            yield told
        else:
            print(f"note: {told}")
    if tag and tag != f"v{source.version}":
        yield f"the tag is {tag}, the version {source.version}"
    if tag and is_unreleased(changelog, source.version):
        yield f"CHANGELOG.md says that {source.version} is unreleased"
    for told in by_tag(ROOT):
        if tag:
            yield told
        else:
            print(f"note: {told}")


def advisories(tag: str | None, work: Path) -> Iterator[str]:
    """Yield the advisories against the lowest versions of pyproject.toml. With a tag, a missing answer is an error."""
    say("advisories")
    try:
        commands = tools(work / "advisories")
        pins = lowest(commands)
        audit = audited(commands, pins)
    except NotRunError as missing:
        told = f"the lowest versions of pyproject.toml are not audited: needs {missing}"
        if tag:
            yield told
        else:
            print(f"note: {told}")
        return
    for package, version in pins.items():
        if told := "; ".join(audit.holes.get(package, ())) or audit.unknown.get(package, ""):
            yield f"{package} {version}, which pyproject.toml lets in: {told}"


def release(work: Path) -> Iterator[str]:
    """Build into `work/first/dist`; yields what is wrong."""
    commit = last_commit()
    first, built = distributions(commit, work / "first")
    dist = work / "first" / "dist"
    say("audits")
    for one in built:
        holds = wheel_contents if one.suffix == ".whl" else sdist_contents
        yield from holds(one, first.folder)
        if "macosx" in one.name:
            yield from audits.macos_library(one, work / one.stem)
    yield from audits.stable_abi([one for one in built if one.suffix == ".whl"])
    yield from audits.metadata(built)
    yield from audits.headers(first.folder / "storage" / "kernel.c", work / "headers")
    distributions(commit, work / "second-which-lies-elsewhere")
    yield from audits.unequal(dist, work / "second-which-lies-elsewhere" / "dist")
    say("papers")
    name = f"ottla-{first.version}"
    (dist / f"{name}-changes.md").write_text(release_notes((first.folder / "CHANGELOG.md").read_text(), first.version))
    own = next(one for one in built if "manylinux" in one.name and one.name.endswith("x86_64.whl"))
    papers.bill_of_materials(first, papers.installed(own, (), work / "plain"), dist / f"{name}.cdx.json")
    papers.licences(papers.installed(own, papers.EXTRAS, work / "extras"), dist / f"{name}-licences.md")
    papers.checksums(dist)


def distributions(commit: str, work: Path) -> tuple[Source, list[Path]]:
    """Build wheels and the source distribution of a commit, in `work/dist`."""
    say(f"building in {work.name}")
    dist = work / "dist"
    dist.mkdir(parents=True)
    source = committed(commit, work / "ottla")
    return source, [sdist(source, work / "sdist", dist), *wheels(source, work, dist)]


def say(text: str) -> None:
    print(f"# {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
