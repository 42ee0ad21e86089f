"""Progress of a table: states as a chain, and the result of two concurrent writers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.apply.state import AppliedState, standing

FIRST = AppliedState.first("s0", "orders", "id-1", {})


def test_a_state_reads_back_from_its_text_and_foreign_metadata_is_ignored() -> None:
    state = FIRST.after("s1", {3: 70, 0: 12}, topic_id="id-1")
    assert AppliedState.from_json(state.to_json()) == state
    for text in (None, "", "by hand", "7", "[]", '{"ottla.apply": 7}', '{"ottla.apply": {"id": "x"}}', '{"other": {}}'):
        assert AppliedState.from_json(text) is None, text


def test_offsets_never_decrease_and_partitions_stay() -> None:
    state = FIRST.after("s1", {0: 10, 1: 5}).after("s2", {0: 7, 2: 1})
    assert state.offsets == {0: 10, 1: 5, 2: 1}
    assert (state.base, state.sequence, state.generation) == ("s1", 2, "s0")
    anew = state.from_the_beginning("s3", "id-2")
    assert (anew.offsets, anew.topic_id, anew.base, anew.sequence) == ({}, "id-2", "s2", 3)


def test_the_newest_state_of_a_chain_is_current() -> None:
    one = FIRST.after("s1", {0: 1})
    two = one.after("s2", {0: 2})
    assert standing([]) == (None, True)
    assert standing([one]) == (one, True)
    assert standing([two, one]) == (two, True)
    assert standing([two, two, one]) == (two, True), "a commit of another kind may repeat a state"


def test_two_concurrent_writers_leave_the_table_at_their_common_ancestor() -> None:
    base = FIRST.after("base", {0: 5})
    theirs = base.after("a1", {0: 6}).after("a2", {0: 8})
    ours = base.after("b1", {0: 6})
    found, is_chain = standing([ours, theirs, base.after("a1", {0: 6}), base])
    assert found is not None
    assert (found.id, found.offsets, is_chain) == ("b1", {0: 5}, False)
    healed = found.after("c1", {0: 9})
    assert standing([healed, ours, theirs, base]) == (healed, True), "who goes on from there ends the matter"


def test_two_first_states_leave_no_confirmed_offsets() -> None:
    a, b = (AppliedState.first(name, "orders", None, {}).after(f"{name}1", {0: 4}) for name in "ab")
    found, is_chain = standing([b, a])
    assert found is not None
    assert (found.offsets, is_chain) == ({}, False)


class ModelTable:
    """Rows and states as the applier keeps them, with the effect of MERGE on one record at a time in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, str]] = {}
        self.history = list[AppliedState]()

    def apply(self, stands: AppliedState, records: list[tuple[int, str, str | None]], name: str) -> AppliedState:
        """Apply a batch of (offset, key, value) to a state that its writer has read, which may be an old one."""
        for offset, key, value in records:
            if offset < stands.offsets.get(0, 0):
                continue
            row = self.rows.get(key)
            if row is not None and row[0] >= offset:
                continue
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (offset, value)
        state = stands.after(name, {0: records[-1][0] + 1})
        self.history.insert(0, state)
        return state


@given(seed=st.integers(0, 2**32))
def test_after_any_two_writers_one_more_run_gives_the_topics_content(seed: int) -> None:
    rng = random.Random(seed)
    log = [(at, rng.choice("abc"), rng.choice([None, f"v{at}"])) for at in range(rng.randrange(2, 25))]
    table = ModelTable()
    reads: list[AppliedState | None] = [None, None]
    for step in range(rng.randrange(1, 8)):
        writer = rng.randrange(2)
        if rng.random() < 0.6 or reads[writer] is None:  # otherwise it continues from an earlier read
            found, _ = standing(table.history)
            reads[writer] = found or AppliedState.first(f"f{step}", "orders", None, {})
        stands = reads[writer]
        assert stands is not None
        start = stands.offsets.get(0, 0)
        batch = log[start : start + rng.randrange(1, 6)]
        if batch:
            table.apply(stands, batch, f"s{step}")
            reads[writer] = None  # the history shows a second writer, and it ends
    found, _ = standing(table.history)
    stands = found or AppliedState.first("last", "orders", None, {})
    if rest := log[stands.offsets.get(0, 0) :]:
        table.apply(stands, rest, "last")
    wanted = {key: (at, value) for at, key, value in log}
    assert table.rows == {key: row for key, row in wanted.items() if row[1] is not None}
