"""`ottla erase` on data directories of Ottla and of Apache Kafka."""

import sys
from pathlib import Path

# The search of bytes is the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
