"""Compare the table and a night's snapshot with the feed: `python check.py CHANGES TABLE SNAPSHOT`; exit code 1 if one differs.

Plain Python, by the packages deltalake and PyArrow: the result does not depend on Spark.
"""

import json
import sys
from pathlib import Path

import feed
import pyarrow.dataset as ds
from deltalake import DeltaTable

Rows = list[tuple[str, dict[str, object]]]


def main() -> None:
    changes, table, snapshot = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    wanted = sorted(feed.customers_after(changes).items())
    print(f"{len(wanted)} customers after the feed's {changes} changes")
    for what, rows in {"table": rows_of_table(table), "snapshot": rows_of_snapshot(snapshot)}.items():
        print(f"{len(rows)} in the {what}")
        if sorted(rows) != wanted:
            sys.exit(f"the {what} differs from the feed")


def rows_of_table(path: Path) -> Rows:
    columns = ["customer", "city", "orders", "changed_ms"]
    return [(row.pop("customer"), row) for row in DeltaTable(path).to_pyarrow_table(columns=columns).to_pylist()]


def rows_of_snapshot(path: Path) -> Rows:
    rows = ds.dataset(path).to_table(columns=["key", "value"]).to_pylist()
    return [(row["key"].decode(), json.loads(row["value"])) for row in rows]


if __name__ == "__main__":
    main()
