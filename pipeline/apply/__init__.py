"""A change feed to a table with one row a key: Delta Lake, Apache Iceberg, or a folder of Parquet.

Read `state` first (how far a table is, and why nothing is applied twice), then `applier` (what is done with a batch), `merge_sql`
and `newest` (which record counts), `sql_tables` and `parquet_table` (where it goes; `kinds` by name), `formats`, `avro_format` with `registry`,
and `protobuf_format` (bytes to columns), `topics` and `query` (the command's own stream). `options` are the command's.
"""
