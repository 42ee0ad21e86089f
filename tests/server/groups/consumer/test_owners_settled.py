"""Who has which partition is ready without a heartbeat of the consumer protocol: members of the classic protocol ask at once."""

from __future__ import annotations

import pytest

from ottla.server.groups.consumer import owners
from support.groups.consumer_groups import ConsumerGroups


@pytest.mark.parametrize("change", ["a session ends", "a load"])
def test_changes_of_many_topics_are_brought_into_the_table_by_a_job(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ConsumerGroups(orders=2, bills=2)
    for _ in range(3):
        for member in ("a", "b"):
            groups.enter(member, "orders", "bills")
    assert len(groups.table().owners.table) == 2
    monkeypatch.setattr(owners, "AT_ONCE", 0)
    if change == "a load":
        groups = groups.restarted()
        groups.advance(0)
    else:
        groups.advance(60_000)
        assert not groups.table().members
    assert list(groups.table().owners.settling()) == []
    assert len(groups.table().owners.table) == (2 if change == "a load" else 0)
