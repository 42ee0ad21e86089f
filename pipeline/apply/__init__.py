"""Application of a change feed to a table with one row per key: Delta Lake or Apache Iceberg.

Read `state` first (the progress of a table, and why nothing is applied twice), then `applier` (the work on a batch),
`merge_sql` and `newest` (which record counts), `sql_tables` and `delta_rs_table` (the targets), `formats`, `debezium`,
`avro_format` with `registry`, and `protobuf_format` (bytes to columns), `topics` and `query` (the command's own stream).
`options` are the command's.
"""
