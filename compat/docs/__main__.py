"""`make docs`: Sphinx and MyST build the site of all texts, and any warning fails it.

It uses `.venv-docs`, as for every caller; that is created at first use, and when pyproject.toml has changed.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.environments import ROOT, empty_environment, need_package_index, run
from ..support.suite import NotRunError, Options, Suite, run_suite

ENVIRONMENT = ".venv-docs/.ready"
SITE = ROOT / "build" / "docs"


def body(suite: Suite, options: Options) -> None:
    if not shutil.which("make") or not shutil.which("git"):
        raise NotRunError("make and git")
    if run(["make", "--question", ENVIRONMENT], cwd=ROOT).returncode:
        if options.quick:
            raise NotRunError("its environment: make docs makes it, once")
        with TemporaryDirectory(prefix="compat-docs-") as name:
            need_package_index(empty_environment(Path(name) / "venv"), Path(name))
    done = run(["make", "--silent", "docs", f"PYTHON={sys.executable}"], cwd=ROOT)
    said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
    for line in said[-20:]:
        suite.note(line)
    suite.check(
        "the site is built, without a warning, a link that leads nowhere, or anything from elsewhere",
        done.returncode == 0,
    )
    suite.check("it has a page of each text of docs/", not missing(), missing())


def missing() -> list[str]:
    """Return texts without a page."""
    names = [path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index"]
    return [name for name in [*names, "index"] if not (SITE / f"{name}.html").exists()]


if __name__ == "__main__":
    sys.exit(run_suite("docs", body, doc=__doc__))
