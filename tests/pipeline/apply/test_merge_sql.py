"""The text of MERGE, and which record replaces which."""

from __future__ import annotations

from ottla.pipeline.apply.merge_sql import Columns, forget_places, insert_missing, merge, quoted

ORDERS = Columns(["id"], ["city", "odd`name"])


def test_a_deletion_deletes_and_an_older_record_changes_nothing() -> None:
    lines = merge("`t`", "v", ORDERS).splitlines()
    assert lines[0] == "MERGE INTO `t` t USING v s ON t.`id` = s.`id`"
    assert [line.partition(" AND (")[0] for line in lines[1:3]] == [
        "WHEN MATCHED AND s.kafka_deleted",
        "WHEN MATCHED AND NOT s.kafka_deleted",
    ]
    assert all(
        "s.kafka_partition = t.kafka_partition AND s.kafka_offset > t.kafka_offset" in line for line in lines[1:3]
    )
    assert lines[1].endswith("THEN DELETE")
    assert "t.`odd``name` = s.`odd``name`" in lines[2]
    assert lines[3].startswith("WHEN NOT MATCHED AND NOT s.kafka_deleted THEN INSERT (`id`, `city`, `odd``name`, ")
    assert len(lines) == 4


def test_with_kept_deletions_a_deletion_is_a_row() -> None:
    text = merge("t", "v", Columns(["a", "b"], ["city"], keeps_deleted=True))
    assert "DELETE\n" not in text and "t.`a` = s.`a` AND t.`b` = s.`b`" in text
    assert "t.`kafka_deleted` = s.`kafka_deleted`" in text
    assert text.count("WHEN") == 2


def test_a_first_load_only_inserts() -> None:
    lines = merge("t", "v", ORDERS, only_inserts=True).splitlines()
    assert lines == [
        "MERGE INTO t t USING v s ON t.`id` = s.`id`",
        "WHEN NOT MATCHED THEN" + merge("t", "v", ORDERS).splitlines()[-1].partition("THEN")[2],
    ]


def test_other_statements() -> None:
    assert quoted("a`b") == "`a``b`"
    assert forget_places("t").startswith("UPDATE t SET `kafka_partition` = NULL, `kafka_offset` = NULL")
    assert insert_missing("t", "v", ["p", "o"], ["p", "o", "x"]).splitlines() == [
        "MERGE INTO t t USING v s ON t.`p` = s.`p` AND t.`o` = s.`o`",
        "WHEN NOT MATCHED THEN INSERT (`p`, `o`, `x`) VALUES (s.`p`, s.`o`, s.`x`)",
    ]
