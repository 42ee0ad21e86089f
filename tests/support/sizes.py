"""How much the tests look at that explore: a slice in `make test`, all in `make nightly`, which sets OTTLA_TESTS=full.

A slice has every kind and every moment; of what may follow from each it has a part, the same in each run.
"""

import os
from typing import TypeVar

Size = TypeVar("Size")

FULL = os.environ.get("OTTLA_TESTS") == "full"


def size(a_slice: Size, full: Size) -> Size:
    return full if FULL else a_slice
