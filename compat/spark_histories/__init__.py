"""What the pipeline on Spark makes of a log, and what the server's cleaner makes of it, byte for byte."""

import sys
from pathlib import Path

# Histories and what runs them are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
