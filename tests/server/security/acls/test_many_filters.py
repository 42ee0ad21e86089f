"""Many filters at once match what each of them matches alone, and are evaluated in one pass."""

from __future__ import annotations

import sys
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from ottla.server.security.acls.acl import Acl, parse
from ottla.server.security.acls.filters import AclFilter, ManyFilters
from ottla.server.security.acls.index import AclIndex
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
PRINCIPALS = st.sampled_from(["User:alice", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1"])
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    st.sampled_from([AclOperation.READ, AclOperation.WRITE]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.UNKNOWN, ResourceType.ANY, ResourceType.TOPIC]),
    st.none() | NAMES,
    st.sampled_from(PatternType),
    st.none() | PRINCIPALS,
    st.none() | HOSTS,
    st.sampled_from([AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.READ]),
    st.sampled_from([Permission.UNKNOWN, Permission.ANY, Permission.DENY]),
)


def meant(index: AclIndex, filters: list[AclFilter]) -> list[list[Acl]]:
    wanted = ManyFilters(index)
    for each in filters:
        wanted.add(each)
    found: list[list[Acl]] = [[] for _ in filters]
    for acl in wanted.candidates():
        for number in chain.from_iterable(wanted.meaning(acl)):
            found[number].append(acl)
    return found


@given(st.lists(ACLS, unique=True, max_size=12), st.lists(FILTERS, max_size=6))
def test_each_filter_matches_the_same_entries_as_separately(acls: list[Acl], filters: list[AclFilter]) -> None:
    index = AclIndex()
    for acl in acls:
        index.add(acl)
    for each, found in zip(filters, meant(index, filters), strict=True):
        assert sorted(map(str, found)) == sorted(str(acl) for acl in acls if each.matches(acl))


def calls(count: int, filters: list[AclFilter]) -> int:
    """Return the number of function calls that find the matches among `count` entries of one topic."""
    index = AclIndex()
    for number in range(count):
        [acl] = parse(f"User:u{number} allow READ topic:t")
        index.add(acl)
    seen = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event.endswith("call")

    sys.setprofile(note)
    try:
        meant(index, filters)
    finally:
        sys.setprofile(None)
    return seen


def test_the_work_grows_with_filters_plus_entries_and_not_their_product() -> None:
    for filters in (
        [AclFilter(principal=f"User:x{number}") for number in range(500)],
        [AclFilter(name="t", principal=f"User:x{number}") for number in range(500)],
        [AclFilter(ResourceType.TOPIC, "t", PatternType.MATCH, host=str(number)) for number in range(500)],
    ):
        assert calls(500, filters) < 60 * (500 + 500)
