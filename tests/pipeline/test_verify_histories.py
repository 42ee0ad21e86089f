"""Random histories, each of whose passes is verified: the pipeline's by its plan, the server's by a copy from before."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from support.cleaner_history import random_history
from support.verified_pair import VerifiedPair

HISTORIES = 30


def test_what_server_and_pipeline_make_passes() -> None:
    verified = 0
    for number in range(HISTORIES):
        verified += random_history(f"verify {number}").run(VerifiedPair).met["a pass verified"]
    assert verified > HISTORIES
