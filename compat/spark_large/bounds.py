"""What the pipeline's modules say that a Python worker needs, as numbers."""

from ottla.pipeline.compaction import exchange
from ottla.pipeline.records import key_hashes
from ottla.pipeline.snapshot import snapshot
from ottla.pipeline.source.read_options import MAX_PARTITION_BYTES_DEFAULT
from ottla.pipeline.verify import key_audit, verify
from ottla.storage.filter.offset_map import BYTES_PER_SLOT

MIB = 1 << 20
BASE_BYTES = 170 * MIB
"""Python with PySpark, pyarrow and NumPy."""
TRANSIT_BYTES = 64 * MIB
"""What Spark hands over at once (spark.sql.execution.arrow.maxBytesPerBatch)."""
WINDOWS_BYTES = 96 * MIB
"""A window of 8 MiB on each side, its records as columns, and their strings."""

SCAN_RECORD_BYTES, SCAN_KEY_BYTES = 24, 16
"""`key_scan`, for each record and key of a segment."""
MERGE_ENTRY_BYTES = 90
"""`exchange`, for each entry of a bucket."""
VERIFY_ROW_BYTES = 250
"""`key_audit`, for each row that is merged."""
CHOOSE_ROW_BYTES = 130
"""`snapshot`, for each row of a bucket."""
WRITE_KEY_BYTES = 24
"""`snapshot`, for each key of a part."""
RECORD_BYTES = 62
"""Of our records in a log file."""


def worker_bounds(records: int, *, records_a_segment: int) -> dict[str, int]:
    """Command -> the most that a worker may need for a log of so many records."""
    entries = min(records, exchange.BUCKET_BYTES // BYTES_PER_SLOT)
    compact = max((SCAN_RECORD_BYTES + SCAN_KEY_BYTES) * records_a_segment, MERGE_ENTRY_BYTES * entries)
    verified = VERIFY_ROW_BYTES * max(
        min(records, verify.ROWS_A_BUCKET), min(records_a_segment, key_audit.ROWS_AT_ONCE)
    )
    part = min(records_a_segment, MAX_PARTITION_BYTES_DEFAULT // RECORD_BYTES)
    rows = min(records, snapshot.ROWS_A_BUCKET)
    chosen = max(
        CHOOSE_ROW_BYTES * rows,
        CHOOSE_ROW_BYTES * min(part, key_hashes.ROWS_AT_ONCE),
        WRITE_KEY_BYTES * part + snapshot.ROW_GROUP_BYTES,
    )
    shared = BASE_BYTES + TRANSIT_BYTES
    return {
        "plan": shared,
        "compact": shared + compact,
        "verify": shared + WINDOWS_BYTES + verified,
        "install": shared,
        "snapshot": shared + WINDOWS_BYTES + chosen,
    }
