"""The results of Apache Kafka's cleaner in well-known cases, line by line; the real cleaner and the model agree on each.

Numbers are those of SCENARIOS.md. In a scenario `txn 1: 1 2` is a transactional batch of producer 1 with two records,
`idem 1:` one outside of transactions, `write:` one of no producer; `k=v` is a record, `k` one with its key as value,
`k=-` a tombstone. `pass` is a clean pass, by default from where the last one ended. The text after it is
the expected rest: last offsets and base offsets of batches, offsets and keys of records with a value, aborted
transactions. `again 1` sends the last batch of producer 1 again, `forget` forgets idle producers. Tombstones and
markers are kept for a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from support.cleaner.cleaner_history import History, Step
from support.cleaner.cleaner_model import CleanedLog
from support.cleaner.cleaner_pair import Pair
from support.logs.make_log import DAY_MS
from support.logs.model_log import ABORT, COMMIT
from support.noted import each_case

MARKER_KEYS = {"COMMIT": b"\0\0\0\1"}

SCENARIOS = {
    "6: the last batch of every producer stays, empty if need be": """
        idem 1: 1 2 3; idem 2: 3 1 4; idem 3: 1 4; roll
        pass; lasts 2 5 7; keys 2 3 1 4; offsets 1 3 6 7
        restart; again 1; again 2; again 3; idem 4: 2; roll
        pass; lasts 2 5 7 8; keys 3 1 4 2; offsets 3 6 7 8
        restart; again 1
    """,
    "7: several passes with a small map over aborted transactions": """
        txn 1: 1 2; txn 2: 2 3; txn 1: 3 4; commit 1; commit 2; txn 1: 2 3; abort 1; txn 2: 4 5; txn 1: 5 6
        commit 1; abort 2; txn 2: 6 7; commit 2; roll
        pass limit=3; dirty 4; bases 0 2 4 6 7 10 13 15 16 17 19; offsets 0 2 3 4 5 6 7 10 13 14 15 16 17 18 19
        aborted 1:8-10 2:11-16
        pass limit=3; dirty 14; offsets 0 2 4 5 6 7 10 13 14 15 16 17 18 19; aborted
        wait a day; pass limit=3; dirty 20; offsets 0 2 4 5 6 7 13 15 17 18 19; bases 0 2 4 6 7 13 15 17 19
    """,
    "8: committed data stays, aborted data goes": """
        txn 1: 1 2; txn 2: 2 3; txn 1: 3 4; abort 1; commit 2; txn 1: 2; commit 1; aborted 1:0-6
        roll
        pass; keys 3 2; offsets 3 6 7 8 9; aborted 1:0-6
    """,
    "9: transactions over two segments, of which first one is cleaned, then both": """
        txn 1: 1 2; txn 3: 2 3; txn 2: 3 4; roll; txn 2: 5 6; txn 3: 6 7; txn 1: 7 8; abort 2; txn 3: 8 9
        commit 3; txn 1: 9 10; abort 1
        pass; keys 2 3 5 6 6 7 7 8 8 9 9 10
        roll; txn 2: 11; txn 1: 12
        pass; keys 2 3 6 7 8 9 11 12
    """,
    "10: a commit marker goes after its data and a day": """
        txn 1: 1; txn 1: 2 3; commit 1; txn 1: 2; commit 1; roll
        pass; keys 1 3 2; offsets 0 2 3 4 5
        txn 1: 1 3; commit 1; roll
        pass; keys 2 1 3; offsets 3 4 5 6 7 8
        pass from=0; offsets 3 4 5 6 7 8
        wait a day; pass from=0; offsets 4 5 6 7 8
    """,
    "11: batches that vanish as a whole": """
        txn 1: 1; abort 1; txn 1: 2; txn 1: 2; commit 1; roll
        pass; offsets 1 3 4
        pass from=0
        wait a day; pass from=0; offsets 3 4
    """,
    "12: an emptied batch keeps its commit marker": """
        txn 1: 2 3; roll; txn 2: 2 3; commit 2; roll; write: 2; write: 3; commit 1; roll
        pass; keys 2 3; offsets 4 5 6 7; lasts 1 3 4 5 6 7
        pass from=0; lasts 1 3 4 5 6 7
        txn 2: 1; commit 2; roll
        pass; lasts 1 4 5 6 7 8 9
        pass from=0
        wait a day; pass from=0; keys 2 3 1; offsets 5 6 7 8 9; lasts 1 5 6 7 8 9
    """,
    "13: an emptied marker that holds its producer's epoch": """
        lone commit 1; write: 2; write: 3; roll
        pass
        wait a day; pass from=0; offsets 1 2; lasts 0 1 2
        wait a day; pass from=0; offsets 1 2; lasts 0 1 2
    """,
    "14: a committed transaction over two segments": """
        txn 1: 1; roll; commit 1; roll
        pass
        wait a day; pass from=0; offsets 0 1; lasts 0 1
    """,
    "15: an aborted transaction over two segments": """
        txn 1: 1; roll; abort 1; roll
        pass; offsets 1; lasts 0 1
        wait a day; pass from=0; offsets 1; lasts 0 1
    """,
    "16: an abort marker goes after its data and a day": """
        txn 1: 1; txn 1: 2 3; abort 1; txn 1: 3; commit 1; roll
        pass; offsets 3 4 5
        pass from=0
        wait a day; pass from=0; offsets 4 5
    """,
    "17: offsets, not sequence numbers, tell a producer's last batch": """
        txn 1: 1; commit 1; txn 1 anew: 2; commit 1; write: 1; write: 2; roll
        pass; offsets 1 3 4 5; lasts 1 2 3 4 5
        pass from=0
        wait a day; pass from=0; offsets 3 4 5; lasts 2 3 4 5
    """,
    "18: an emptied batch keeps its abort marker": """
        txn 1: 2 3; abort 1; roll
        pass; aborted 1:0-2; offsets 2; lasts 1 2
        pass from=0
        wait a day; pass from=0; aborted 1:0-2; offsets 2; lasts 1 2
        idem 1: 1; roll
        pass from=0; aborted 1:0-2; offsets 2 3; lasts 2 3
        pass from=0
        wait a day; pass from=0; aborted; offsets 3; lasts 3
    """,
    "24: a pass that starts in the middle, and what it counts": """
        write: 0; write: 1; write: 0; write: 1; write: 0; roll
        pass from=2 limit=3; dirty 5; offsets 3 4
    """,
    "25: the last sequence number of each producer": """
        write: 0; idem 1: 0; idem 2: 0; idem 3: 0; idem 2: 1; roll
        pass; lasts 1 3 4; keys 0 1; offsets 3 4
    """,
    "26: the last sequence number after an abort": """
        txn 1: 1; txn 1: 2 3; abort 1; roll
        pass; lasts 2 3; offsets 3
        idem 1: 1 5; roll
        pass from=0; lasts 3 5; offsets 3 4 5; keys 1 5
    """,
    "27: a user's key that looks like a marker's": """
        txn 1: 1; commit 1; txn 2: COMMIT=foo; commit 2; roll
        pass; lasts 0 1 2 3; offsets 0 1 2 3
    """,
    "28: a map of one key": """
        write: 0; write: 1; write: 0; write: 1; write: 0; roll
        pass from=2 limit=1; offsets 1 2 3 4
        pass from=3 limit=1; offsets 2 3 4
        pass from=4 limit=1; offsets 3 4
    """,
    "46: a tombstone goes in a pass of its own, a day after the first that saw it": """
        write: 0; roll
        pass; write: 0=-; roll
        pass; lasts 1
        write: 1; roll
        pass; lasts 1 2
        wait a day; write: 2; roll; pass; lasts 2 3
    """,
    "a producer that was forgotten and is known again by a marker: only the marker stays for it": """
        idem 1: 1; txn 1: 2; abort 1; wait a day; forget; lone commit 1; write: 1; roll
        pass; lasts 2 3 4; offsets 2 3 4
    """,
}


@pytest.mark.scenario(6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 24, 25, 26, 27, 28, 46)
@each_case("scenario", SCENARIOS.values(), ids=[name.replace(":", "") for name in SCENARIOS])
def test_cleaner_and_model_keep_the_same_records_as_apache_kafka(scenario: str) -> None:
    pair = Pair(delete_retention_ms=DAY_MS)
    for line in re.split(r";|\n", scenario.strip()):
        say(pair, line.strip())
        pair.assert_same_outline()


@pytest.mark.scenario(34)
def test_34_segments_whose_keys_recur_elsewhere_keep_their_last_batch_empty() -> None:
    model = CleanedLog()
    for number in range(6):
        model.append([(b"%d" % number, b"")])
        if number % 2:
            model.roll()
    model.rewrite({b"%d" % number: 2**63 - 1 for number in range(6)}, 2**63 - 1, 6, now=0)
    assert [(batch.last, batch.records) for batch in model.batches] == [(5, ())]


def test_47_a_pass_ends_after_holes_in_the_offsets() -> None:
    segments = ((0, *range(10)), (15, *range(15, 25)), (30, 30))
    assert History([Step("clean")], holes=segments).run().checkpoint == 30


def say(pair: Pair, line: str) -> None:
    verb, _, rest = line.partition(" ")
    if ":" in line and verb in ("txn", "idem", "write:"):
        _write(pair, line)
    elif verb in EXPECTED:
        assert EXPECTED[verb](pair) == rest, line
    else:
        STEPS[verb](pair, rest.split())


def _write(pair: Pair, line: str) -> None:
    who, _, records = line.partition(":")
    kind, *producer = who.split()
    pairs = []
    for record in records.split():
        key, _, value = record.partition("=")
        pairs.append((MARKER_KEYS.get(key, key.encode()), None if value == "-" else (value or key).encode()))
    pair.write(
        pairs,
        producer=int(producer[0]) if producer else -1,
        transactional=kind == "txn",
        from_sequence_0="anew" in producer,
    )


def _pass(pair: Pair, words: list[str]) -> None:
    options = dict(word.split("=") for word in words)
    if "from" in options:
        pair.checkpoint = int(options["from"])
    passes = pair.met["a pass"]
    pair.clean(max_entries=int(options["limit"]) if "limit" in options else None)
    assert pair.met["a pass"] == passes + 1


STEPS: dict[str, Callable[[Pair, list[str]], None]] = {
    "commit": lambda pair, words: pair.end_txn(int(words[0]), COMMIT),
    "abort": lambda pair, words: pair.end_txn(int(words[0]), ABORT),
    "lone": lambda pair, words: pair.lone_marker(int(words[1]), COMMIT),
    "roll": lambda pair, _: pair.roll(),
    "restart": lambda pair, _: pair.restart(),
    "forget": lambda pair, _: pair.forget_idle_producers(),
    "again": lambda pair, words: pair.send_again(int(words[0])),
    "wait": lambda pair, _: pair.wait(DAY_MS),
    "pass": _pass,
}


def _keys(pair: Pair) -> str:
    """Return the keys of data records with a value."""
    records = [record for batch in pair.model.batches if not batch.is_control for record in batch.records]
    return " ".join(record.key.decode() for record in records if record.key and record.value is not None)


EXPECTED: dict[str, Callable[[Pair], str]] = {
    "dirty": lambda pair: str(pair.checkpoint),
    "offsets": lambda pair: " ".join(
        str(record.offset) for batch in pair.model.batches for record in batch.records if record.value is not None
    ),
    "bases": lambda pair: " ".join(str(batch.base) for batch in pair.model.batches),
    "lasts": lambda pair: " ".join(str(batch.last) for batch in pair.model.batches),
    "aborted": lambda pair: " ".join(f"{txn.producer_id}:{txn.first}-{txn.last}" for txn in pair.model.aborted),
    "keys": _keys,
}
