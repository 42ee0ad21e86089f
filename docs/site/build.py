"""`make docs`: the site of docs/ in build/docs, with the Python that has the extra `docs`.

Any warning is an error, a link that leads nowhere among them; nothing is fetched, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from built import faults
from sphinx.cmd.build import build_main
from staged import ROOT, stage

SITE = ROOT / "build" / "docs"
SOURCES = ROOT / "build" / "docs-sources"


def main() -> int:
    """Build it, and look it through: 0, or 1 and what is wrong."""
    for directory in (SITE, SOURCES):
        shutil.rmtree(directory, ignore_errors=True)
    stage(SOURCES)
    options = ["-b", "html", "-q", "-W", "--keep-going", "-n", "-j", "auto", "-c", str(Path(__file__).parent)]
    if code := build_main([*options, "-d", f"{SOURCES}.read", str(SOURCES), str(SITE)]):
        return code
    wrong = list(faults(SITE))
    print("\n".join(wrong) or f"{SITE / 'index.html'}", file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
