"""The ratios that are looked at, and what they are to be.

Bounds are the study's targets, set anew by what this code measures: CPU floors leave a fifth of room above medians seen
on a busy machine, aims are those medians.
"""

from .rows import Comparison

COMPARISONS = [
    Comparison("1 full scan / tuples", "scan", "scan, tuples"),
    Comparison("2 full scan / same reader without Spark", "scan", "scan, no Spark"),
    Comparison("3 scan of keys / full scan", "scan of keys", "scan"),
    Comparison("4 compact / same code without Spark", "compact", "compact, no Spark"),
    Comparison("4 compact x4 / same code without Spark", "compact x4", "compact x4, no Spark"),
    Comparison("4 compact / server's cleaner", "compact", "server's cleaner"),
    Comparison("4 compact x4 / server's cleaner", "compact x4", "server's cleaner x4"),
    Comparison("4 without Spark / server's cleaner", "compact, no Spark", "server's cleaner"),
    Comparison("4 many keys: compact / server's cleaner", "compact many keys", "server's cleaner many keys"),
    Comparison("5 compact / SQL that writes nothing", "compact", "compact, SQL"),
    Comparison("7 compact, 4 times the data", "compact x4", "compact"),
    Comparison("8 unique keys: compact / without Spark", "compact unique", "compact unique, no Spark"),
    Comparison("8 unique keys: compact / server's cleaner", "compact unique", "server's cleaner unique"),
    Comparison("9 snapshot / SQL max_by to Parquet", "snapshot", "snapshot, SQL"),
]
