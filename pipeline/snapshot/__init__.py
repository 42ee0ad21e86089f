"""The latest value of each key in columns of files, and back into a topic.

`snapshot` (the three steps), `snapshot_rounds` (until nothing has come between), `snapshot_folder` (one folder in place of
another), `store_snapshot` (the same in an object store), `targets` and `places` (which of both), `snapshot_job` (on Spark); `restore`.
"""
