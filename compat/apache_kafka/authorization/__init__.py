"""The requests that each ACL operation alone allows, at Apache Kafka and at Ottla."""

import sys
from pathlib import Path

# The questions and the recorded answers are the tests' own, which import each other as `support.…`.
sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
