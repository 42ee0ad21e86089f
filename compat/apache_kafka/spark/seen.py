"""The pipeline's view of a directory, in the form of a consumer's records."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from ...support.clients.steps import ReadRecord

Records = dict[tuple[str, int], list[ReadRecord]]


class Ran(NamedTuple):
    """The result of a command line."""

    exit_code: int
    result: dict[str, Any]
    errors: str

    def __str__(self) -> str:
        return f"exit code {self.exit_code} {self.errors.strip().splitlines()[-1:]}"


def ottla_spark(*arguments: str, says_json: bool = True) -> Ran:
    """Run a command line in this process, on the session that there is."""
    from ottla.pipeline.cli import main

    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        exit_code = main([*arguments, "--json", "--quiet"])
    text = output.getvalue()
    return Ran(exit_code, json.loads(text) if text and says_json else {}, errors.getvalue())


def spark_records(spark: Any, data_dir: Path, topics: str, *, isolation: str) -> Records:
    """Return the records that `spark.read.format("ottla")` reads from these topics, a comma-separated list."""
    frame = (
        spark.read.format("ottla")
        .option("topic", topics)
        .option("isolationLevel", isolation)
        .option("includeHeaders", "true")
        .load(str(data_dir))
        .selectExpr("*", "unix_millis(timestamp) AS ms")
    )
    found: Records = {}
    for row in frame.collect():
        headers = tuple((name, _bytes(value)) for name, value in row.headers or ())
        record = ReadRecord(row.offset, (row.timestampType + 1, row.ms), _bytes(row.key), _bytes(row.value), headers)
        found.setdefault((row.topic, row.partition), []).append(record)
    return {place: sorted(records, key=lambda record: record.offset) for place, records in found.items()}


def snapshot_values(out: Path) -> dict[int, dict[bytes, tuple[int, bytes]]]:
    """Return partition -> key -> (offset, value); a key that is there twice is a ValueError."""
    found: dict[int, dict[bytes, tuple[int, bytes]]] = {}
    for row in ds.dataset(out, format="parquet").to_table().to_pylist():
        own = found.setdefault(row["partition"], {})
        if row["key"] in own:
            raise ValueError(f"{row['key']!r} is there twice")
        own[row["key"]] = row["offset"], row["value"]
    return found


def newest_values(records: list[ReadRecord]) -> dict[bytes, tuple[int, bytes]]:
    """Return the final values of a consumer that has read everything: the model."""
    newest: dict[bytes, tuple[int, bytes]] = {}
    for record in records:
        if record.key is not None and record.value is not None:
            newest[record.key] = record.offset, record.value
        elif record.key is not None:
            newest.pop(record.key, None)
    return newest


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
