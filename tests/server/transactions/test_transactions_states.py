"""The effect of each request on a transactional id in each state, as Apache Kafka 4.3.1's coordinator answers it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.records import Producer
from ottla.server.transactions.metadata import FOLLOWS, PREPARED, TransactionState
from support.noted import each_case
from support.transactions.transactions import A0, A1, B0, Transactions, code_of

E = ErrorCode
S = TransactionState
ID = "x"

STATES: dict[str, list[str]] = {
    "unknown": [],
    "Empty": ["init"],
    "Ongoing": ["init", "add"],
    "PrepareCommit": ["init", "add", "refuse", "commit"],
    "PrepareAbort": ["init", "add", "refuse", "abort"],
    "CompleteCommit": ["init", "add", "commit"],
    "CompleteAbort": ["init", "add", "abort"],
}
"""The requests that lead to each state; in the prepared ones partition A0 does not accept its marker."""


def in_state(name: str, version: int) -> tuple[Transactions, Producer]:
    """Return a coordinator with the id in this state, and the producer as its client knows it."""
    transactions = Transactions(version=version)
    producer = Producer(1000, 0)
    for step in STATES[name]:
        match step:
            case "init":
                producer = transactions.init(ID)
            case "add":
                transactions.add(ID, producer, A0)
            case "refuse":
                transactions.markers.refusing.add(A0)
            case _:
                ended = transactions.end(ID, producer, commit=step == "commit")
                producer = producer if name.startswith("Prepare") else ended
    return transactions, producer


Request = Callable[[Transactions, Producer], object]
REQUESTS: dict[str, Request] = {
    "init": lambda t, p: t.init(ID),
    "init as itself": lambda t, p: t.init(ID, expected=p),
    "add present": lambda t, p: t.add(ID, p, A0),
    "add another": lambda t, p: t.add(ID, p, A1),
    "verify": lambda t, p: t.verify(ID, p, A0),
    "commit": lambda t, p: t.end(ID, p, commit=True),
    "abort": lambda t, p: t.end(ID, p, commit=False),
}
MAPPING, FENCED, CONCURRENT = E.INVALID_PRODUCER_ID_MAPPING, E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS
INVALID, NONE = E.INVALID_TXN_STATE, E.NONE

ANSWERS_0 = {
    #                 init        init as it  add present add another verify      commit      abort
    "unknown":        (NONE,       NONE,       MAPPING,    MAPPING,    MAPPING,    MAPPING,    MAPPING),
    "Empty":          (NONE,       NONE,       NONE,       NONE,       NONE,       INVALID,    INVALID),
    "Ongoing":        (CONCURRENT, CONCURRENT, NONE,       NONE,       NONE,       NONE,       NONE),
    "PrepareCommit":  (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
    "PrepareAbort":   (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
    "CompleteCommit": (NONE,       NONE,       NONE,       NONE,       NONE,       NONE,       INVALID),
    "CompleteAbort":  (NONE,       NONE,       NONE,       NONE,       NONE,       INVALID,    NONE),
}  # fmt: skip
ANSWERS_2 = {
    "unknown":        (NONE,       NONE,       MAPPING,    MAPPING,    MAPPING,    MAPPING,    MAPPING),
    "Empty":          (NONE,       NONE,       NONE,       NONE,       NONE,       INVALID,    NONE),
    "Ongoing":        (CONCURRENT, CONCURRENT, NONE,       NONE,       NONE,       NONE,       NONE),
    # Under transaction version 2 the epoch has been incremented already, which verification checks first.
    "PrepareCommit":  (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, FENCED,     CONCURRENT, CONCURRENT),
    "PrepareAbort":   (CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, FENCED,     CONCURRENT, CONCURRENT),
    "CompleteCommit": (NONE,       NONE,       NONE,       NONE,       NONE,       INVALID,    NONE),
    "CompleteAbort":  (NONE,       NONE,       NONE,       NONE,       NONE,       INVALID,    NONE),
}  # fmt: skip
ANSWERS = {0: ANSWERS_0, 1: ANSWERS_0, 2: ANSWERS_2}


@each_case("version", ANSWERS)
@each_case("state", STATES)
def test_each_request_is_answered_by_the_state(state: str, version: int) -> None:
    for (name, request), expected in zip(REQUESTS.items(), ANSWERS[version][state], strict=True):
        transactions, producer = in_state(state, version)
        if state != "unknown":
            assert transactions.state(ID).title == state
        assert code_of(lambda: request(transactions, producer)) is expected, name  # noqa: B023 - called at once


@each_case("version", ANSWERS)
@each_case("state", STATES)
def test_a_refusal_changes_nothing(state: str, version: int) -> None:
    for name, request in REQUESTS.items():
        transactions, producer = in_state(state, version)
        before = transactions.store.history(ID)
        code = code_of(lambda: request(transactions, producer))  # noqa: B023 - called at once
        fences = state == "Ongoing" and name.startswith("init")
        if code is not NONE and not fences:
            assert transactions.store.history(ID) == before, name
            assert transactions.knows(ID) == (state != "unknown"), name


STRANGERS = {
    "another producer id": (Producer(77, 0), MAPPING),
    "an older epoch": (Producer(1000, -1), FENCED),
    "a later epoch": (Producer(1000, 9), FENCED),
}


@pytest.mark.parametrize("version", ANSWERS)
@pytest.mark.parametrize("name", STRANGERS)
def test_a_foreign_producer_is_refused(name: str, version: int) -> None:
    stranger, expected = STRANGERS[name]
    transactions, _ = in_state("Ongoing", version)
    for request in ("add present", "add another", "verify", "commit", "abort"):
        assert code_of(lambda: REQUESTS[request](transactions, stranger)) is expected, request  # noqa: B023
    assert code_of(lambda: transactions.init(ID, expected=stranger)) is (CONCURRENT if expected is FENCED else FENCED)


@pytest.mark.parametrize("version", ANSWERS)
def test_while_markers_are_written_every_producer_must_wait(version: int) -> None:
    """Kafka checks the pending transition before it checks the producer, except for EndTxn up to transaction version 1
    and for verification.
    """
    transactions, _ = in_state("PrepareCommit", version)
    stranger = Producer(77, 0)
    answers = {name: code_of(lambda: request(transactions, stranger)) for name, request in REQUESTS.items()}  # noqa: B023
    ends = CONCURRENT if version == 2 else MAPPING
    assert answers == dict.fromkeys(REQUESTS, CONCURRENT) | {"verify": MAPPING, "commit": ends, "abort": ends}


def test_a_repeated_end_under_version_2_is_answered() -> None:
    """The table of KIP-890: the epoch before means the same end again, the new one a new transaction."""
    answers = {
        ("CompleteCommit", True): NONE,
        ("CompleteCommit", False): INVALID,
        ("CompleteAbort", True): INVALID,
        ("CompleteAbort", False): NONE,
        ("Empty", True): FENCED,
        ("Empty", False): FENCED,
    }
    for (state, commit), expected in answers.items():
        transactions, producer = in_state(state, 2)
        earlier = producer._replace(producer_epoch=producer.producer_epoch - 1)
        records = len(transactions.store.history(ID))
        assert code_of(lambda: transactions.end(ID, earlier, commit=commit)) is expected  # noqa: B023
        assert len(transactions.store.history(ID)) == records
        if expected is NONE:
            assert transactions.end(ID, earlier, commit=commit) == producer


def test_a_version_2_producer_may_abort_without_a_transaction() -> None:
    for state in ("Empty", "CompleteCommit", "CompleteAbort"):
        transactions, producer = in_state(state, 2)
        transactions.elapsed_ms += 5
        following = transactions.end(ID, producer, commit=False)
        assert following == producer._replace(producer_epoch=producer.producer_epoch + 1)
        assert transactions.state(ID) is S.COMPLETE_ABORT
        assert transactions.metadata(ID).start_ms == transactions.now_ms


def test_every_transition_is_in_the_table() -> None:
    seen = set()
    for version, table in ANSWERS.items():
        for state in table:
            for request in REQUESTS.values():
                transactions, producer = in_state(state, version)
                code_of(lambda: request(transactions, producer))  # noqa: B023 - called at once
                seen |= set(pairwise(one.state for one in transactions.store.history(ID) if one is not None))
    assert seen == {(before, after) for after, befores in FOLLOWS.items() for before in befores}
    assert {S.PREPARE_COMMIT, S.PREPARE_ABORT} == PREPARED


def test_partitions_are_added_once() -> None:
    transactions, producer = in_state("Ongoing", 2)
    records = len(transactions.store.history(ID))
    transactions.add(ID, producer, A0)
    assert len(transactions.store.history(ID)) == records
    transactions.add(ID, producer, A0, B0)
    assert transactions.metadata(ID).partitions == {A0, B0}
    assert transactions.verify(ID, producer, A0, A1, B0) == [A1]


def test_a_transaction_begins_with_its_first_partition() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.elapsed_ms += 10
    began_ms = transactions.now_ms
    transactions.add(ID, producer, A0)
    transactions.elapsed_ms += 10
    transactions.add(ID, producer, A1)
    assert transactions.metadata(ID).start_ms == began_ms
    assert transactions.metadata(ID).updated_ms == began_ms + 10


@pytest.mark.parametrize("timeout_ms, code", [(0, E.INVALID_TRANSACTION_TIMEOUT), (-1, E.INVALID_TRANSACTION_TIMEOUT),
    (900_001, E.INVALID_TRANSACTION_TIMEOUT), (1, NONE), (900_000, NONE)])  # fmt: skip
def test_timeouts_are_limited(timeout_ms: int, code: ErrorCode) -> None:
    transactions = Transactions()
    assert code_of(lambda: transactions.init(ID, timeout_ms)) is code
    assert transactions.knows(ID) == (code is NONE)


def test_an_empty_transactional_id_is_refused() -> None:
    transactions = Transactions()
    someone = Producer(1, 0)
    for request in (
        lambda: transactions.init(""),
        lambda: transactions.add("", someone, A0),
        lambda: transactions.verify("", someone, A0),
        lambda: transactions.end("", someone, commit=True),
        lambda: transactions.coordinator.describe(transactions.coordinator.shard_for(""), ""),
    ):
        assert code_of(request) is E.INVALID_REQUEST


def test_a_change_that_the_log_refuses_has_no_effect() -> None:
    for failure in (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR):
        for state in STATES:
            for name, request in REQUESTS.items():
                transactions, producer = in_state(state, 2)
                before = transactions.metadata(ID) if transactions.knows(ID) else None
                transactions.store.failure = failure
                code = code_of(lambda: request(transactions, producer))  # noqa: B023 - called at once
                after = transactions.metadata(ID) if transactions.knows(ID) else None
                assert after == before, (state, name)
                transactions.store.failure = None
                retried, producer = in_state(state, 2)
                if code is failure:
                    assert code_of(lambda: request(transactions, producer)) is code_of(  # noqa: B023
                        lambda: request(retried, producer)  # noqa: B023
                    )
