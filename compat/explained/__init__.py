"""Explanations of logs, compared with what then happens, for many more random histories than `make test` has time for."""

import sys
from pathlib import Path

# The model and the generator are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
