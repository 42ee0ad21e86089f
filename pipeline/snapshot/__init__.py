"""The latest value of each key in columns of files, and back into a topic.

`snapshot` (the three steps), `snapshot_rounds` (until nothing has come between), `snapshot_folder` (one folder in place of
another), `snapshot_job` (on Spark); `restore`.
"""
