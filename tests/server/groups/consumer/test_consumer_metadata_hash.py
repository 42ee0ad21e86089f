"""The hash of a group's topics changes with everything that may change an assignment, and with nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from ottla.server.groups.assigning.metadata_hash import SUMS_KEPT, MetadataHashes, hashing
from ottla.storage.steps import to_the_end
from support.calls import calls_of


@dataclass(frozen=True)
class Topics:
    """Topics by name: the number that makes the id, and the racks of each partition."""

    by_name: dict[str, tuple[int, list[list[str]]]] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        return list(self.by_name)

    def id_of(self, name: str) -> bytes | None:
        return self.by_name[name][0].to_bytes(16, "big") if name in self.by_name else None

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name in self.by_name if self.id_of(name) == topic_id), None)

    def partition_count(self, topic_id: bytes) -> int:
        return len(self.racks(topic_id))

    def racks(self, topic_id: bytes) -> list[list[str]]:
        name = self.name_of(topic_id)
        return [] if name is None else self.by_name[name][1]


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    return to_the_end(hashing(set(names), topics))


BEFORE = Topics({"a": (1, [["r1", "r2"], []]), "b": (2, [["r1"]])})
HASH = metadata_hash(["a", "b"], BEFORE)


@pytest.mark.parametrize(
    "changed",
    [
        Topics({"a": (1, [["r1", "r2"], []])}),
        Topics({"a": (3, [["r1", "r2"], []]), "b": (2, [["r1"]])}),
        Topics({"a": (1, [["r1", "r2"], [], []]), "b": (2, [["r1"]])}),
        Topics({"a": (1, [["r1", "r3"], []]), "b": (2, [["r1"]])}),
        Topics({"a": (1, [["r1", "r2"]]), "b": (2, [[], ["r1"]])}),
    ],
    ids=["a topic is gone", "it is another topic", "it has more partitions", "a rack", "where the partitions belong"],
)
def test_it_changes_with(changed: Topics) -> None:
    assert metadata_hash(["a", "b"], changed) != HASH


def test_it_does_not_change_with_anything_else() -> None:
    same = Topics({"c": (9, []), "b": (2, [["r1"]]), "a": (1, [["r2", "r1"], []])})
    assert metadata_hash(["b", "a", "b", "missing"], same) == HASH


def test_it_is_a_signed_number_of_64_bits_and_zero_without_topics() -> None:
    assert metadata_hash(["missing"], BEFORE) == 0
    assert -(1 << 63) <= HASH < 1 << 63


def test_it_is_the_number_that_groups_have_in_the_log() -> None:
    assert HASH == 8471783945671427179
    assert metadata_hash(["c"], Topics({"c": (9, [[], []])})) == -1254653827014814760


def test_each_topic_is_looked_at_once_however_often_and_in_which_lists_it_is_asked_for() -> None:
    topics = Topics({f"t{number}": (number, [[]] * 100) for number in range(500)})
    hashes, names = MetadataHashes(topics), frozenset(topics.names())
    hashes.hash_of(names)
    less = names - {"t1"}
    assert calls_of(lambda: hashes.hash_of(less)) < 20
    assert hashes.hash_of(less) == metadata_hash(less, topics)


def test_those_that_exist_are_told_in_order() -> None:
    hashes = MetadataHashes(Topics({name: (number, [[]]) for number, name in enumerate("dacb")}))
    assert hashes.existing_names(frozenset("abcdx"), 3) == ["a", "b", "c"]


def test_other_racks_are_seen_with_the_next_change_of_any_topic() -> None:
    by_name: dict[str, tuple[int, list[list[str]]]] = {"a": (1, [["r1"]]), "b": (2, [["r1"]])}
    topics = Topics(by_name)
    hashes = MetadataHashes(topics)
    before = hashes.hash_of(frozenset("a"))
    by_name["a"] = 1, [["r2"]]
    hashes.topics_changed(["b"])
    assert hashes.hash_of(frozenset("a")) == metadata_hash("a", topics) != before


def test_who_asks_again_for_the_same_topics_is_told_without_a_look_at_them() -> None:
    topics = Topics({f"t{number}": (number, [[]]) for number in range(500)})
    hashes = MetadataHashes(topics)
    names = frozenset(topics.names())
    assert hashes.hash_of(names) == metadata_hash(names, topics)

    assert calls_of(lambda: hashes.hash_of(frozenset(topics.names()))) < 10


def test_a_change_of_topics_is_seen_by_who_asks_after_it() -> None:
    by_name: dict[str, tuple[int, list[list[str]]]] = {"a": (1, [[]]), "b": (2, [[]])}
    topics = Topics(by_name)
    hashes = MetadataHashes(topics)
    before = hashes.hash_of(frozenset("ab"))
    by_name["b"] = 2, [[], []]
    hashes.topics_changed(["b"])
    assert hashes.hash_of(frozenset("ab")) == metadata_hash("ab", topics) != before


def test_hashes_that_are_kept_are_few() -> None:
    hashes = MetadataHashes(BEFORE)
    for number in range(10 * SUMS_KEPT):
        hashes.hash_of(frozenset([str(number)]))
    assert len(hashes._sums) <= SUMS_KEPT


@pytest.mark.parametrize(("topics", "partitions", "pieces"), [(20, 1, 0), (200, 0, 2), (4, 100, 4)])
def test_a_piece_has_a_hundred_topics_or_partitions(topics: int, partitions: int, pieces: int) -> None:
    known = Topics({f"t{number}": (number, [["r"]] * partitions) for number in range(topics)})
    assert sum(1 for _ in hashing(known.by_name, known)) == pieces
