"""The order in which DescribeClientQuotas lists the values of an entity."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest

from ottla.server.handlers.describe_client_quotas import _entry
from ottla.server.quotas.entities import Entity

KEYS = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")


def bucket(key: str, buckets: int) -> int:
    """Return the place of a text in a java.util.HashMap."""
    found = 0
    for character in key:
        found = (31 * found + ord(character)) & 0xFFFFFFFF
    return (found ^ found >> 16) & (buckets - 1)


@pytest.mark.parametrize("count", range(1, len(KEYS) + 1))
def test_values_come_bucket_by_bucket_whatever_the_order_in_which_they_were_set(count: int) -> None:
    buckets = 4 if count < 4 else 8
    for keys in combinations(KEYS, count):
        found = set()
        for order in permutations(keys):
            entry = _entry(Entity.from_parts({"user": "u"}), dict.fromkeys(order, 1.0))
            found.add(tuple(value.key for value in entry.values))
        (listed,) = found
        places = [bucket(key, buckets) for key in listed]
        assert sorted(listed) == sorted(keys) and places == sorted(places)
