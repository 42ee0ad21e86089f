"""InitProducerId 6, which Apache Kafka serves with `unstable.api.versions.enable` alone: two-phase commit (KIP-939) as
implemented there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.transactions.metadata import TransactionState
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.groups.settings import transaction_settings
from support.transactions.transactions import A0, SWEEP_MS, Transactions

UNSTABLE = {"unstable.api.versions.enable": "true", "transaction.state.log.num.partitions": "1"}
TWO_PHASES = {"transaction.two.phase.commit.enable": "true"}
FOR_EVER_MS = 2**31 - 1
E = ErrorCode


def init(client: RawClient, transactional_id: str | None = "x", timeout_ms: int = 60_000, **asked: bool) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **asked)
    answer: InitProducerIdResponse = client.ask(request, 6)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
    return ErrorCode(answer.error_code)


def range_of(client: RawClient) -> tuple[int, int]:
    rows = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4).api_keys
    return next((row.min_version, row.max_version) for row in rows if row.api_key == 22)


def find(client: RawClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 6)


@pytest.mark.parametrize("emulate", [None, "4.3"])
def test_the_unstable_version_is_advertised_and_served_only_if_enabled(tmp_path: Path, emulate: str | None) -> None:
    # An emulated release omits its unstable versions.
    overrides = {} if emulate is None else UNSTABLE
    with ottla.Broker(str(tmp_path), overrides=overrides, emulate=emulate) as broker:
        with RawClient(*address(broker)) as client:
            assert range_of(client) == (0, 5)
            with pytest.raises(ConnectionError):
                init(client)
        with RawClient(*address(broker)) as client:
            assert range_of(client) == (0, 5)


def test_if_enabled_the_version_is_served_without_two_phases(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides=UNSTABLE) as broker, RawClient(*address(broker)) as client:
        assert range_of(client) == (0, 6)
        find(client)
        assert init(client) is E.NONE
        assert init(client, enable2_pc=True) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert init(client, enable2_pc=True, keep_prepared_txn=True) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert init(client, keep_prepared_txn=True) is E.UNSUPPORTED_VERSION
        assert init(client, "", enable2_pc=True) is E.INVALID_REQUEST
        assert init(client, timeout_ms=900_001) is E.INVALID_TRANSACTION_TIMEOUT
        # Without a transactional id none of its fields is checked.
        assert init(client, None, timeout_ms=-7, enable2_pc=True, keep_prepared_txn=True) is E.NONE


def test_with_two_phases_the_requested_timeout_is_ignored(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides=UNSTABLE | TWO_PHASES) as broker, RawClient(*address(broker)) as client:
        find(client)
        assert init(client, timeout_ms=-7, enable2_pc=True) is E.NONE
        described = client.ask(DescribeTransactionsRequest(transactional_ids=("x",)), 0).transaction_states[0]
        assert (described.error_code, described.transaction_timeout_ms) == (E.NONE, FOR_EVER_MS)
        assert init(client, enable2_pc=True, keep_prepared_txn=True) is E.UNSUPPORTED_VERSION


def test_a_two_phase_transaction_stays_open_until_its_end() -> None:
    transactions = Transactions(settings=transaction_settings(transaction_two_phase_commit_enable=True))
    producer = transactions.coordinator.init_producer_id(
        transactions.coordinator.shard_for("x"), "x", 1, None, transactions.now_ms, two_phase=True
    )
    transactions.add("x", producer, A0)
    transactions.advance(FOR_EVER_MS + SWEEP_MS)
    assert transactions.state("x") is TransactionState.ONGOING
    again = Transactions(after=transactions)
    again.advance(FOR_EVER_MS + SWEEP_MS)
    assert again.state("x") is TransactionState.ONGOING
    again.end("x", producer, commit=True)
    assert again.state("x") is TransactionState.COMPLETE_COMMIT


def test_two_phases_need_their_own_right(tmp_path: Path) -> None:
    with (
        ottla.Broker(
            str(tmp_path), overrides=UNSTABLE | TWO_PHASES, acls=["User:ANONYMOUS allow WRITE transactionalid:x"]
        ) as broker,
        RawClient(*address(broker)) as client,
    ):
        find(client)
        assert init(client) is E.NONE
        assert init(client, enable2_pc=True) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        broker.add_acls("User:ANONYMOUS allow TWO_PHASE_COMMIT transactionalid:x")
        assert init(client, enable2_pc=True) is E.NONE
