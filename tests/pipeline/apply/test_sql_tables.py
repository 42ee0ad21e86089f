"""Names of tables, and states found in a Delta table's history. compat/spark_apply tests the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

from ottla.pipeline.apply.formats import ddl
from ottla.pipeline.apply.packages import PACKAGES, check_packages
from ottla.pipeline.apply.query import table
from ottla.pipeline.apply.sql_tables import DeltaTable, IcebergTable, rows_written, states_of_history
from ottla.pipeline.apply.state import AppliedState, standing
from ottla.pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = AppliedState.first("s0", "orders", None, {})
ONE = FIRST.after("s1", {0: 1})
TWO = ONE.after("s2", {0: 2})
THREE = TWO.after("s3", {0: 3})


def row(
    version: int, operation: str, state: AppliedState | None = None, parameters: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "version": version,
        "timestamp": f"2026-11-25 10:00:{version:02}",
        "operation": operation,
        "operationParameters": parameters or {},
        "userMetadata": None if state is None else state.to_json(),
    }


HISTORY = [
    row(4, "MERGE", THREE),
    row(3, "OPTIMIZE"),
    row(2, "MERGE", TWO),
    row(1, "MERGE", ONE),
    row(0, "CREATE TABLE"),
]


def test_states_are_in_commit_metadata_among_foreign_commits() -> None:
    assert list(states_of_history(HISTORY)) == [THREE, TWO, ONE]


@pytest.mark.parametrize("parameters", [{"version": "2"}, {"version": "null", "timestamp": "2026-11-25 10:00:03"}])
def test_states_undone_by_restore_are_ignored_and_their_numbers_not_reused(parameters: dict[str, str]) -> None:
    found = list(states_of_history([row(5, "RESTORE", parameters=parameters), *HISTORY]))
    assert [each.id for each in found] == ["s2", "s1"]
    assert {each.generation for each in found} == {"restored-5"}, "Delta would skip sequence 3 of the old generation"
    after = found[0].after("s4", {0: 3})
    stands, is_chain = standing(
        states_of_history([row(6, "MERGE", after), row(5, "RESTORE", parameters=parameters), *HISTORY])
    )
    assert (stands, is_chain) == (after, True)


def test_a_recreated_table_has_none_of_the_old_states() -> None:
    assert list(states_of_history([row(6, "CREATE OR REPLACE TABLE"), *HISTORY])) == []


@pytest.mark.parametrize(
    ("state", "metrics", "rows"),
    [
        (ONE, {"numFiles": "2", "numOutputRows": "7"}, 7),
        (TWO, {"numOutputRows": "7"}, None),
        (None, {"numOutputRows": "7"}, None),
        (ONE, {}, None),
        (ONE, None, None),
    ],
)
def test_rows_are_counted_by_the_commit_with_the_state(
    state: AppliedState | None, metrics: dict[str, str] | None, rows: int | None
) -> None:
    assert rows_written(row(1, "WRITE", state) | {"operationMetrics": metrics}, ONE) == rows


@pytest.mark.parametrize(
    ("kind", "name", "sql"),
    [
        ("delta", "shop.customers", "`shop`.`customers`"),
        ("delta", "/srv/some where/t", "delta.`/srv/some where/t`"),
        ("delta", "s3a://bucket/t", "delta.`s3a://bucket/t`"),
        ("iceberg", "lake.shop.`odd name`", "`lake`.`shop`.`odd name`"),
    ],
)
def test_names_of_tables(kind: str, name: str, sql: str) -> None:
    made = table(kind, name)
    assert isinstance(made, DeltaTable | IcebergTable)
    assert (made.sql, made.name) == (sql, name)


@pytest.mark.parametrize(
    ("kind", "name"), [("iceberg", "customers"), ("delta", "a b"), ("delta", "a;b"), ("delta", ""), ("hudi", "x")]
)
def test_an_invalid_name_is_refused(kind: str, name: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        table(kind, name)


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_session_without_a_jar_is_reported(spark: SparkSession, name: str) -> None:
    with pytest.raises(UsageError, match=f"the jar of {name} is missing"):
        check_packages(spark, [name])


@pytest.mark.parametrize("name", ["customers", "shop.customers", "spark_catalog.shop.customers"])
def test_a_temporary_delta_table_is_not_created(spark: SparkSession, name: str) -> None:
    with pytest.raises(UsageError, match=f"expected a path such as ./{name}, or a catalog that outlives the session"):
        DeltaTable(name).create(spark, ddl("n INT"))
