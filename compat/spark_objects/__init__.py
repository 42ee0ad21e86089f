"""The pipeline over copies of data directories in an S3 server of this machine, with and without faults between."""

import sys
from pathlib import Path

# The log with transactions, tombstones and several codecs is the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
