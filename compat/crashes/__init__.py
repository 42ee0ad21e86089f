"""Power loss at every operation of a compacted log's life, in more states than `make test` has time for."""

import sys
from pathlib import Path

# The lives and the disk that loses power are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
