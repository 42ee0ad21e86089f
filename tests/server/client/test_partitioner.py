from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.server.client.values import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_keys_have_the_hashes_of_apache_kafkas_own_tests(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFF_FFFF


@given(st.binary(max_size=40), st.integers(1, 20))
def test_every_key_is_assigned_to_kafka_pythons_partition(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (kafka_python_murmur2(key) & 0x7FFF_FFFF) % partitions
