"""Error codes with Kafka's names."""

import copy
import pickle

import pytest

from ottla.protocol.errors import CorruptRecordError, ErrorCode, KafkaError, ProtocolError


def test_codes_equal_those_that_kio_takes_from_kafka() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    ours = {code.name: int(code) for code in ErrorCode}
    theirs = {code.name.upper(): int(code) for code in Theirs}
    assert {name: ours.get(name) for name in theirs} == theirs
    assert len(ours) == len(set(ours.values()))
    assert sorted(ours.values()) == list(range(-1, 137))


def test_an_error_says_its_code_and_message() -> None:
    assert str(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "offset 7 of 3")) == "OFFSET_OUT_OF_RANGE: offset 7 of 3"
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"


def test_damage_in_batches_is_a_corrupt_message() -> None:
    error = CorruptRecordError("length -1")
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.CORRUPT_MESSAGE, "length -1")


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.NONE, "m"), CorruptRecordError("m"), ProtocolError("m")])
def test_errors_survive_copying_and_pickling(error: Exception) -> None:
    """Worker threads and processes pass them on."""
    for one in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(one) is type(error) and str(one) == str(error)
