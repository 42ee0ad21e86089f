"""Disk failures during the life of a whole server, in more states than `make test` has time for."""

import sys
from pathlib import Path

# The life and the disk are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
