"""Batches applied to a table: its content after repeated, unordered or undecodable batches. With tables of delta-rs."""

from __future__ import annotations

import random
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pytest.importorskip("deltalake", reason="needs the extra ottla[delta-rs]")

from ottla.pipeline import jobs
from ottla.pipeline.apply.applier import Applier
from ottla.pipeline.apply.delta_rs_table import DeltaRsTable
from ottla.pipeline.apply.formats import FormatSpec
from ottla.pipeline.apply.merge_sql import Columns
from ottla.pipeline.apply.query import ApplyJob, applier
from ottla.pipeline.apply.state import AppliedState
from ottla.pipeline.errors import CorruptSourceError, SourceChangedError, StoreLockedError, UsageError
from support.pipeline.changes import TOPIC, Change, batch
from support.sizes import FULL, size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = dict[str, Any]


def job(path: Path, **options: Any) -> ApplyJob:
    given = {"value": FormatSpec("json", "value", schema="n BIGINT"), "creates": True, **options}
    return ApplyJob(TOPIC, str(path / "table"), "delta-rs", **given)


def rows(made: Applier, session: SparkSession) -> Rows:
    return {row["key"]: row["n"] for row in made.table.read(session).collect()}


def at(partition: int, offset: int, key: str, n: int | None, time_s: int | None = None) -> Change:
    return Change(partition, offset, key, None if n is None else {"n": n}, time_s)


def test_batches_with_replays_give_the_newest_records(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(20261125)
    feed = [
        at(key % 3, offset, f"k{key}", rng.choice([None, offset])) for offset in range(60) for key in [rng.randrange(9)]
    ]
    made = applier(spark, job(tmp_path))
    applied = 0
    pieces = (20, 20, 45, *size((), (30,)), 60)  # the second is empty, the fourth has nothing new
    for number, end in enumerate(pieces):
        start = rng.randrange(applied + 1) if number != 1 else end
        made(batch(spark, feed[start:end]), number)
        applied = max(applied, end)
        if number in size((3,), range(5)):
            newest = {str(each.key): each.value for each in feed[:applied]}
            assert rows(made, spark) == {key: value["n"] for key, value in newest.items() if isinstance(value, dict)}
        if number == 2:  # a new process, whose checkpoint was lost
            made = applier(spark, job(tmp_path))
    assert (made.applied.records, made.applied.batches) == (15, 1)
    assert made.state(spark).offsets == {
        each: max(c.offset for c in feed if c.partition == each) + 1 for each in range(3)
    }


def test_a_repeated_upsert_after_the_deletion_does_not_restore_the_row(spark: SparkSession, tmp_path: Path) -> None:
    upsert, deletion = at(0, 0, "a", 1), at(0, 1, "a", None)
    made = applier(spark, job(tmp_path))
    for number, changes in enumerate(size([[upsert, deletion]], [[upsert], [deletion]])):
        made(batch(spark, changes), number)
    for again in (*size((), (made,)), applier(spark, job(tmp_path))):
        again(batch(spark, [upsert]), 0)
        assert rows(made, spark) == {}


def test_for_grown_partitions_the_timestamp_decides(spark: SparkSession, tmp_path: Path) -> None:
    made = applier(spark, job(tmp_path, keeps_deleted=True))
    made(
        batch(spark, [at(0, 900, "a", 1, 10), at(5, 3, "a", 2, 20), at(0, 901, "b", 1, 10), at(5, 4, "b", None, 10)]), 0
    )
    assert rows(made, spark) == {"a": 2, "b": None}, "of two at the same time the new partition's counts"
    before, later = [at(0, 902, "a", 3, 15), at(0, 903, "b", 3, 9)], [at(0, 904, "b", 4, 30)]
    if FULL:
        made(batch(spark, before), 1)
        assert rows(made, spark) == {"a": 2, "b": None}, "what came to the old partition before"
    made(batch(spark, before + later), 2)
    found = {row["key"]: (row["n"], row["kafka_deleted"]) for row in made.table.read(spark).collect()}
    assert found == {"a": (2, False), "b": (4, False)}


def test_undecodable_records_fail_the_batch_or_are_set_aside_once(spark: SparkSession, tmp_path: Path) -> None:
    feed = [
        at(0, 0, "a", 1),
        Change(0, 1, "a", b"{"),
        Change(0, 2, None, {"n": 5}),
        Change(1, 0, b"\xff", {"n": 6}),
        Change(1, 1, "b", b'{"n": "text"}'),
        Change(1, 2, "c", b"[7]"),
        at(1, 3, "d", 8),
    ]
    strict = applier(spark, job(tmp_path))
    with pytest.raises(
        CorruptSourceError, match=r"orders-0, offset 1: .* found a value that is not a JSON object of the schema, and 4"
    ):
        strict(batch(spark, feed), 0)
    assert rows(strict, spark) == {}
    made = applier(spark, job(tmp_path, undecodable_to=str(tmp_path / "aside")))
    made(batch(spark, feed), 0)
    assert rows(made, spark) == {"a": 1, "d": 8}, "the record before counts"
    assert made.aside is not None
    aside = made.aside.read(spark).collect()
    assert {(row["partition"], row["offset"]): row["reason"] for row in aside} == {
        (0, 1): "a value that is not a JSON object of the schema",
        (0, 2): "no key",
        (1, 0): "a key that is not UTF-8",
        (1, 1): "a value that is not a JSON object of the schema",
        (1, 2): "a value that is not a JSON object of the schema",
    }
    made.aside.insert_missing(made.aside.read(spark), ["topic", "partition", "offset"])
    assert made.aside.read(spark).count() == 5


def test_keys_may_have_several_columns_and_values_the_same_names(spark: SparkSession, tmp_path: Path) -> None:
    key = FormatSpec("json", "key", schema="shop STRING, id INT")
    value = FormatSpec("json", "value", schema="ID STRING, n BIGINT")
    made = applier(spark, job(tmp_path, key=key, value=value))
    made(batch(spark, [at(0, 0, '{"shop": "s", "id": 1}', 1), at(0, 1, '{"id": 1, "shop": "s"}', 2)]), 0)
    assert [(row["shop"], row["id"], row["n"]) for row in made.table.read(spark).collect()] == [("s", 1, 2)]
    with pytest.raises(
        CorruptSourceError, match=r"offset 2: .* found a key that is not a JSON object with only shop, id"
    ):
        made(batch(spark, [at(0, 2, '{"shop": "s"}', 1)]), 1)
    with pytest.raises(CorruptSourceError, match=r"offset 2: .* found no id in its key"):
        made(batch(spark, [at(0, 2, '{"shop": "s", "id": null}', 1)]), 1)


def test_columns_that_the_table_lacks_are_refused_or_added(spark: SparkSession, tmp_path: Path) -> None:
    made = applier(spark, job(tmp_path))
    made(batch(spark, [at(0, 0, "a", 1)]), 0)
    more = job(tmp_path, value=FormatSpec("json", "value", schema="n BIGINT, city STRING"))
    with pytest.raises(UsageError, match=r"expected the columns city string, found none of them .--add-columns"):
        applier(spark, more)
    other = job(tmp_path, value=FormatSpec("json", "value", schema="n STRING"))
    with pytest.raises(UsageError, match="column n: expected string, as the records have it, found bigint"):
        applier(spark, other)
    grown = applier(
        spark, job(tmp_path, value=FormatSpec("json", "value", schema="n BIGINT, city STRING"), adds_columns=True)
    )
    grown(batch(spark, [Change(0, 1, "b", {"n": 2, "city": "Oslo"})]), 0)
    assert {row["key"]: row["city"] for row in grown.table.read(spark).collect()} == {"a": None, "b": "Oslo"}
    assert grown.state(spark).offsets == {0: 2}
    assert made.table.read(spark).schema == grown.table.read(spark).schema, "who has written it and who has not"
    known = applier(spark, job(tmp_path, value=FormatSpec("json", "value")))
    assert known.value.fields.names == ["n", "city"], "JSON has the table's columns where no schema is given"


def test_the_second_of_two_concurrent_appliers_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one, other = applier(spark, job(tmp_path)), applier(spark, job(tmp_path))
    one(batch(spark, [at(0, 0, "a", 1)]), 0)
    other(batch(spark, [at(0, 0, "a", 1), at(0, 1, "b", 2)]), 0)
    with pytest.raises(StoreLockedError, match="another program is applying"):
        one(batch(spark, [at(0, 1, "b", 2)]), 1)
    assert rows(one, spark) == {"a": 1, "b": 2}


def test_a_missing_table_is_created_only_on_request(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a table, found none .--create makes it"):
        applier(spark, job(tmp_path, creates=False))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "mine.txt").touch()
    with pytest.raises(UsageError, match="expected a Delta table, or an empty folder, found other files"):
        applier(spark, job(tmp_path))
    with pytest.raises(UsageError, match="--value-schema: expected columns"):
        applier(spark, job(tmp_path / "y", value=FormatSpec("json", "value", schema="no such thing here")))
    (tmp_path / "schema").write_bytes(b"n INT \xff")
    with pytest.raises(
        UsageError, match=f"expected a file of UTF-8 text, found an invalid byte at position 6 of {tmp_path}/schema"
    ):
        applier(spark, job(tmp_path / "z", value=FormatSpec("json", "value", schema=f"@{tmp_path}/schema")))
    with pytest.raises(UsageError, match="--undecodable-to: expected another table than --table"):
        applier(spark, job(tmp_path, undecodable_to=f"{tmp_path}/./table"))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("Kafka_Offset INT", "column Kafka_Offset: expected another name"),
        ("n INT, N STRING", "column N: expected it once, found it twice"),
    ],
)
def test_an_existing_column_name_is_refused(spark: SparkSession, tmp_path: Path, schema: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        applier(spark, job(tmp_path, value=FormatSpec("json", "value", schema=schema)))


def test_a_recreated_topic_replaces_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    made = applier(spark, job(tmp_path))
    made(batch(spark, [at(0, 500, "a", 1), at(0, 501, "b", 1)]), 0)
    again = applier(spark, job(tmp_path))
    state = again.state(spark).from_the_beginning("anew", "id-2")
    again.table.forget_places(spark, state)
    again.begun_at = state
    again(batch(spark, [at(0, 0, "a", 2, 0), at(0, 1, "c", 2, 0)]), 0)
    assert rows(again, spark) == {"a": 2, "b": 1, "c": 2}
    assert again.state(spark).offsets == {0: 2}


def test_keys_and_values_may_have_other_formats(spark: SparkSession, tmp_path: Path) -> None:
    key = FormatSpec("string", "key", schema="id BIGINT")
    made = applier(spark, job(tmp_path, key=key, value=FormatSpec("binary", "value")))
    made(batch(spark, [Change(0, 0, "7", b"\x00\xff"), Change(0, 1, "8", b"")]), 0)
    assert {row["id"]: bytes(row["value"]) for row in made.table.read(spark).collect()} == {7: b"\x00\xff", 8: b""}
    with pytest.raises(CorruptSourceError, match="found a key that is not a valid bigint"):
        made(batch(spark, [Change(0, 2, "seven", b"")]), 1)


@pytest.mark.parametrize("calls", size([1], [0, 1, 2]))
def test_a_topic_recreated_between_two_batches_ends_the_stream_before_applying_records(
    spark: SparkSession, tmp_path: Path, calls: int
) -> None:
    ids = chain(["id-1"] * (1 + calls), repeat("id-2"))
    made = applier(spark, job(tmp_path), lambda: next(ids), next(ids))
    feed = [at(0, offset, f"k{offset}", offset) for offset in range(3)]
    for number in range(calls):
        made(batch(spark, feed[: number + 1]), number)
    with pytest.raises(SourceChangedError, match="orders: expected topic id id-1 of the table, found id-2"):
        made(batch(spark, feed), calls)
    assert rows(made, spark) == {f"k{offset}": offset for offset in range(calls)}
    if calls:
        with pytest.raises(SourceChangedError, match="found id-2: the topic was deleted and created again"):
            applier(spark, job(tmp_path), lambda: "id-2", "id-2")


def test_a_custom_stream_names_its_topic(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"applier: expected kafka=.*bootstrap.servers.* or data_dir="):
        jobs.applier(spark, topic=TOPIC, table=str(tmp_path / "table"), table_format="delta-rs", creates=True)
    with pytest.raises(UsageError, match=r"applier: topic_made_anew: run jobs\.apply with it once"):
        jobs.applier(
            spark,
            topic=TOPIC,
            table=str(tmp_path / "table"),
            table_format="delta-rs",
            data_dir=str(tmp_path),
            topic_made_anew=True,
        )
    assert not (tmp_path / "table").exists()


def begun(session: SparkSession, made: Applier) -> Applier:
    made.begun_at = made.state(session)
    return made


def ends_of(feed: list[Change]) -> dict[int, int]:
    return {each.partition: each.offset + 1 for each in feed}


MOVED = [at(0, 60, "k1", 60, 10), at(1, 60, "k1", 61, 5)]
"""A key that is in two partitions: the timestamp decides."""
DELETED_ELSEWHERE = [at(0, 60, "k1", 60, 10), at(1, 61, "k1", None, 5)]


@pytest.mark.parametrize("more", [[], MOVED, DELETED_ELSEWHERE])
@pytest.mark.parametrize("keeps_deleted", size([False], [False, True]))
def test_a_first_load_gives_the_newest_records(
    spark: SparkSession, tmp_path: Path, more: list[Change], keeps_deleted: bool
) -> None:
    rng = random.Random(20261130)
    feed = [
        at(key % 3, offset, f"k{key}", rng.choice([None, offset])) for offset in range(60) for key in [rng.randrange(9)]
    ]
    made = begun(spark, applier(spark, job(tmp_path, keeps_deleted=keeps_deleted)))
    assert made.has_no_rows(spark)
    made.load(batch(spark, feed + more), ends_of(feed + more))
    newest = {str(each.key): each.value for each in feed} | ({"k1": {"n": 60}} if more else {})
    wanted = {key: value["n"] if isinstance(value, dict) else None for key, value in newest.items()}
    assert rows(made, spark) == {key: n for key, n in wanted.items() if n is not None or keeps_deleted}
    assert made.applied.records == len(rows(made, spark))
    again = begun(spark, applier(spark, job(tmp_path, keeps_deleted=keeps_deleted)))
    assert again.state(spark).offsets == ends_of(feed + more)
    assert not again.has_no_rows(spark)
    again(batch(spark, [*feed, at(2, 99, "k2", 99)]), 0)
    assert rows(again, spark)["k2"] == 99
    assert again.applied.records == 1, "what was loaded is not applied again"


def test_an_undecodable_record_of_a_first_load_is_named_or_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    feed = [at(0, 0, "a", 1), Change(0, 1, "a", b"{"), at(1, 0, "b", 2), Change(1, 1, None, {"n": 3}), at(0, 2, "c", 4)]
    strict = begun(spark, applier(spark, job(tmp_path)))
    with pytest.raises(CorruptSourceError, match=r"orders-0, offset 1: .* not a JSON object of the schema, and 1 more"):
        strict.load(batch(spark, feed), ends_of(feed))
    assert strict.has_no_rows(spark)
    lenient = begun(spark, applier(spark, job(tmp_path, undecodable_to=str(tmp_path / "aside"))))
    lenient.load(batch(spark, feed), ends_of(feed))
    assert rows(lenient, spark) == {"a": 1, "b": 2, "c": 4}
    assert lenient.aside is not None
    assert {(row["partition"], row["offset"]) for row in lenient.aside.read(spark).collect()} == {(0, 1), (1, 1)}
    assert (lenient.applied.records, lenient.applied.undecodable) == (5, 2)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_first_load_that_dies_is_in_the_table_as_a_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, calls: int
) -> None:
    """The topic's id is asked for right before and right after the commit."""

    def dying() -> str:
        nonlocal calls
        calls -= 1
        if calls < 0:
            raise KeyboardInterrupt
        return "id-1"

    feed, wanted_calls = [at(0, offset, f"k{offset % 4}", offset) for offset in range(9)], calls
    made = begun(spark, applier(spark, job(tmp_path), dying, "id-1"))
    calls = wanted_calls - 1
    with pytest.raises(KeyboardInterrupt):
        made.load(batch(spark, feed), ends_of(feed))
    again = begun(spark, applier(spark, job(tmp_path), lambda: "id-1", "id-1"))
    assert again.has_no_rows(spark) == (wanted_calls == 1)
    if again.has_no_rows(spark):
        again.load(batch(spark, feed), ends_of(feed))
    assert rows(again, spark) == {"k0": 8, "k1": 5, "k2": 6, "k3": 7}
    assert again.state(spark).offsets == {0: 9}


class ShowsPlans(DeltaRsTable):
    plan = ""

    def load(self, rows: DataFrame, columns: Columns, state: AppliedState, *, creates: bool) -> int:
        self.plan = str(rows._jdf.queryExecution().optimizedPlan().toString())
        return super().load(rows, columns, state, creates=creates)


def test_a_first_load_decodes_each_value_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spark repeats a decoder in a filter, for each of the filter's terms."""
    made = begun(spark, applier(spark, job(tmp_path)))
    made.table = table = ShowsPlans(str(tmp_path / "table"))
    made.load(batch(spark, [at(0, 0, "a", 1), at(0, 1, "b", None)]), {0: 2})
    assert table.plan.count("from_json(") == 1
    assert rows(made, spark) == {"a": 1}


def test_a_missing_table_is_created_by_its_load_or_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    loaded, empty = (begun(spark, applier(spark, job(tmp_path / name))) for name in ("loaded", "empty"))
    assert loaded.is_missing and not (tmp_path / "loaded").exists(), "a killed load leaves no table"
    loaded.load(batch(spark, [at(0, 0, "a", 1)]), {0: 1})
    empty.create(spark)
    empty.create(spark)
    assert not (loaded.is_missing or empty.is_missing)
    assert (rows(loaded, spark), rows(empty, spark)) == ({"a": 1}, {})
    assert empty.table.fields(spark) == loaded.table.fields(spark)
    empty.load(batch(spark, [at(0, 0, "a", 1)]), {0: 1})
    assert rows(empty, spark) == {"a": 1}


def test_a_table_whose_creation_was_killed_is_loaded_also_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    made = begun(spark, applier(spark, job(tmp_path)))
    assert made.is_missing
    made.load(batch(spark, [at(0, 0, "a", 1), at(0, 1, "a", None)]), {0: 2})
    assert (rows(made, spark), made.state(spark).offsets) == ({}, {0: 2})


def test_the_second_of_two_concurrent_first_loads_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (begun(spark, applier(spark, job(tmp_path))) for _ in range(2))
    feed = [at(0, 0, "a", 1)]
    one.load(batch(spark, feed), ends_of(feed))
    with pytest.raises(StoreLockedError, match="another program is applying"):
        other.load(batch(spark, feed), ends_of(feed))
    assert [row["key"] for row in one.table.read(spark).collect()] == ["a"]


def test_a_topic_recreated_during_a_first_load_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    ids = chain(["id-1"], repeat("id-2"))
    made = begun(spark, applier(spark, job(tmp_path), lambda: next(ids), "id-1"))
    feed = [at(0, 0, "a", 1)]
    with pytest.raises(SourceChangedError, match="orders: expected topic id id-1 of the table, found id-2"):
        made.load(batch(spark, feed), ends_of(feed))
    assert made.state(spark).topic_id == "id-1", "so each later run refuses the new topic"


def test_a_first_load_does_not_decode_superseded_values(spark: SparkSession, tmp_path: Path) -> None:
    feed = [Change(0, 0, "a", b"{"), at(0, 1, "a", 1)]
    made = begun(spark, applier(spark, job(tmp_path)))
    made.load(batch(spark, feed), ends_of(feed))
    assert rows(made, spark) == {"a": 1}
