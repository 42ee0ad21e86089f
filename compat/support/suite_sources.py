"""Test suites of other projects that no package index has: the user names their sources.

`SUITE_SRC_<NAME>` names one checkout. `SUITE_SRC` is one as well, or a folder of several, each under its repository's name.
"""

import os
from pathlib import Path

from .suite import NotRunError


def suite_sources(name: str, repository: str, marker: str) -> Path:
    """Return the folder of a checkout of `repository` (OWNER/NAME), recognised by the file `marker` in it.

    Raises:
        NotRunError: Neither `SUITE_SRC_<NAME>` nor `SUITE_SRC` leads to it.
    """
    candidates = []
    if own := os.environ.get(f"SUITE_SRC_{name.upper()}"):
        candidates.append(Path(own))
    if common := os.environ.get("SUITE_SRC"):
        candidates += [Path(common), Path(common) / repository.rpartition("/")[2]]
    for folder in candidates:
        if (folder / marker).is_file():
            return folder
    raise NotRunError(f"sources (a checkout of {repository} named by SUITE_SRC or SUITE_SRC_{name.upper()})")
