"""Application of a change feed to a table with one row per key: Delta Lake, Apache Iceberg, or a folder of Parquet.

Read `state` first (the progress of a table, and why nothing is applied twice), then `applier` (the work on a batch),
`merge_sql` and `newest` (which record counts), `sql_tables` and `parquet_table` (the targets; `kinds` by name), `formats`,
`avro_format` with `registry`, and `protobuf_format` (bytes to columns), `topics` and `query` (the command's own stream).
`options` are the command's.
"""
