"""The ratios that the suite measures, and their bounds.

Floors are a fifth to a quarter beyond the values of five quiet rounds; aims are the next targets. The difference between Spark
and the same code in one process is Spark's own cost, nearly as much CPU time again. The server's compiled cleaner is faster
than both if its map holds all keys.
"""

from .rows import Comparison

COMPARISONS = [
    Comparison("1 full scan / tuples", "scan", "scan, tuples", 0.20, 0.12, 0.20, 0.13),
    Comparison("2 full scan / same reader without Spark", "scan", "scan, no Spark", 4.3, 3.3, 2.6, 1.9),
    Comparison("3 scan of keys / full scan", "scan of keys", "scan", 0.75, 0.6, 0.75, 0.6),
    Comparison("4 compact / same code without Spark", "compact", "compact, no Spark", 2.2, 1.7, 1.5, 1.2),
    Comparison("4 compact x4 / same code without Spark", "compact x4", "compact x4, no Spark", 2.3, 1.7, 1.4, 1.1),
    Comparison("4 compact / server's cleaner", "compact", "server's cleaner", 3.5, 2.3),
    Comparison("4 compact x4 / server's cleaner", "compact x4", "server's cleaner x4", 5.0, 4.0),
    Comparison("4 without Spark / server's cleaner", "compact, no Spark", "server's cleaner", 1.9, 1.3),
    Comparison(
        "4 many keys: compact / server's cleaner",
        "compact many keys",
        "server's cleaner many keys",
        0.4,
        0.2,
        0.3,
        0.15,
    ),
    Comparison("5 compact / SQL that writes nothing", "compact", "compact, SQL", 0.1, 0.05, 0.1, 0.07),
    Comparison("7 compact, 4 times the data", "compact x4", "compact", 4.8, 4.4, 4.4, 4.1),
    Comparison("7 scan, 4 times the data", "scan x4", "scan", 4.2, 4.0),
    Comparison("7 snapshot, 4 times the data", "snapshot x4", "snapshot", 4.2, 4.0),
    Comparison(
        "8 unique keys: compact / without Spark", "compact unique", "compact unique, no Spark", 2.2, 1.7, 1.5, 1.1
    ),
    Comparison("8 unique keys: compact / server's cleaner", "compact unique", "server's cleaner unique", 4.3, 3.4),
    Comparison("9 snapshot / SQL max_by to Parquet", "snapshot", "snapshot, SQL", 0.5, 0.36, 0.48, 0.36),
    Comparison(
        "9 unique keys: snapshot / SQL max_by to Parquet", "snapshot unique", "snapshot unique, SQL", wall_floor=1.0
    ),
]
