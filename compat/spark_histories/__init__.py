"""The Spark pipeline's compaction of a log compared with the server cleaner's, byte for byte."""

import sys
from pathlib import Path

# Histories and what runs them are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
