"""Debezium's envelope around the JSON of a row, as Kafka Connect's JSON converters write it.

    value      {"op": "c", "before": null, "after": {…}, "source": {…}, …}      the row is `after`; for the op "d" it was deleted
    either     {"schema": {…}, "payload": …}                                    with the converter's `schemas.enable`

An envelope is opened before the newest records are chosen, so that Spark exchanges only rows, without schemas and old values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from .formats import FormatSpec, JsonFormat, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEBEZIUM = "debezium"
UPSERTS, DELETION = ("c", "u", "r"), "d"
"""Values of `op`: create, update, read (by a first snapshot); delete."""


class Envelope:
    """Opens the envelopes of keys or of values.

    what: `key` or `value`, also the name of the column.
    bad: Name of a column that `opened` adds: the reason why an envelope cannot be opened, or null.
    """

    def __init__(self, spec: FormatSpec) -> None:
        self.what = spec.what
        self.bad = f"bad_{spec.what}"
        as_json = FormatSpec("json", spec.what, is_framed=spec.is_framed)
        if spec.what == "key":
            self._json = JsonFormat(ddl("schema STRING, payload STRING"), as_json)
        else:
            self._json = JsonFormat(ddl("payload STRUCT<op STRING, after STRING>, op STRING, after STRING"), as_json)

    def opened(self, records: DataFrame) -> DataFrame:
        """Replace a column of bytes by the JSON of the row, or of its key; null for a deletion. Adds the column `bad`."""
        records = records.withColumn("parsed", self._json.parsed(records, self.what))
        found, why = self._json.decoded(self.what, f.col("parsed"))
        records = records.withColumns({"parsed": found, self.bad: f.when(f.col(self.what).isNotNull(), why)})
        text = self._json.bytes_of(self.what).cast("string")
        if self.what == "key":  # one that has no envelope is the payload
            text = f.when(f.col(self.bad).isNull(), f.col("parsed.payload")).otherwise(text)
            return records.withColumns({"key": text.cast("binary"), self.bad: f.lit(None).cast("string")}).drop(
                "parsed"
            )
        has_payload = f.col("parsed.payload").isNotNull()
        op, after = (
            f.when(has_payload, f.col(f"parsed.payload.{name}")).otherwise(f.col(f"parsed.{name}"))
            for name in ("op", "after")
        )
        records = records.withColumns({"op": op, "after": after}).drop("parsed")
        is_upsert, is_deletion = f.col("op").isin(*UPSERTS), f.col("op") == DELETION
        why = f.coalesce(
            f.col(self.bad),
            f.when(f.col("op").isNull(), f.lit("not in Debezium's envelope: op is missing")),
            f.when(~is_upsert & ~is_deletion, f.concat(f.lit("in Debezium's envelope with the op "), f.col("op"))),
            f.when(is_upsert & f.col("after").isNull(), f.lit("in Debezium's envelope without after")),
        )
        why = f.when(f.col("value").isNotNull(), why)
        return records.withColumns({"value": f.when(is_upsert, f.col("after").cast("binary")), self.bad: why}).drop(
            "op", "after"
        )


def row_spec(spec: FormatSpec) -> FormatSpec:
    """Return the format of what is in the envelope."""
    return replace(spec, name="json", is_framed=False)
