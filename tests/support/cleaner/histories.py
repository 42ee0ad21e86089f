"""Many random histories, one after the other; the first that fails is made as small as possible, and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from support.cleaner.cleaner_history import History, describe_failure
from support.cleaner.cleaner_pair import Pair


def run_histories(
    make: Callable[[int | str], History], numbers: Iterable[int | str], pair_type: type[Pair]
) -> Counter[str]:
    """Run the histories of these numbers, and return what they met."""
    met: Counter[str] = Counter()
    for number in numbers:
        try:
            met += make(number).run(pair_type).met
        except Exception:  # noqa: BLE001 -- whatever it is, it is the finding
            pytest.fail(describe_failure(number, pair_type, make))
    return met
