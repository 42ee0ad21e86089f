"""The schema registry with stock clients, through kills, and what it costs."""

import sys
from pathlib import Path

# The clients of the admin listener and of the registry are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
