"""An install of what the pipeline has staged, killed before every operation, in real processes."""

import sys
from pathlib import Path

# The helpers of the tests: a broker to compact in, and `ottla serve` in a process of its own.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
