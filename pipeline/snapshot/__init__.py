"""Snapshots: the newest value of each key as Parquet files, and their restore into a topic.

`snapshot` (the three steps), `snapshot_rounds` (repeated under a live cleaner), `snapshot_folder` (replacement of a folder),
`targets` (its files), `snapshot_job` (on Spark); `stored_rows`, `partition_writer`, `restore` (into a topic).
"""
