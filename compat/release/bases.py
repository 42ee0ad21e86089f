"""The base images of the project's images, and those that are named by a tag: another image may have that tag tomorrow."""

import re
from collections.abc import Iterator
from pathlib import Path

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
OTHERS = re.compile(r"--from=([^\s,]+)|\bfrom=([^\s,]+)")
"""Images that a COPY or a mount takes files from."""


def by_tag(root: Path) -> Iterator[str]:
    """Yield an error for each base without a digest in the Dockerfiles of a source tree."""
    for path in sorted((root / "docker").glob("Dockerfile*")):
        if path.suffix == ".dockerignore":
            continue
        for base in bases(path.read_text()):
            if not DIGEST.search(base):
                yield f"{path.relative_to(root)}: the base {base} has no digest; name it as {base}@sha256:… (docs/releasing.md)"


def bases(dockerfile: str) -> list[str]:
    """Return the images that a Dockerfile takes from elsewhere, each once, with its arguments' defaults."""
    arguments: dict[str, str] = {}
    stages, found = {"scratch"}, dict[str, None]()
    for line in re.sub(r"\\\n", " ", dockerfile).splitlines():
        word, rest = [*line.split(maxsplit=1), "", ""][:2]
        if word.upper() == "ARG":
            name, is_set, value = rest.strip().partition("=")
            if is_set:
                arguments[name] = value.strip("\"'")
            continue
        if word.upper() == "FROM":
            image, *more = [each for each in rest.split() if not each.startswith("--")]
            taken = [image]
        elif word.upper() in ("COPY", "RUN", "ADD"):
            taken, more = [one or other for one, other in OTHERS.findall(rest)], []
        else:
            continue
        for each in taken:
            name = re.sub(r"\$\{?(\w+)\}?", lambda each: arguments.get(each[1], each[0]), each)
            if name not in stages and not name.isdecimal():
                found[name] = None
        if len(more) == 2:
            stages.add(more[1])
    return list(found)
