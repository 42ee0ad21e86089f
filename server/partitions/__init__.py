"""Partitions as requests meet them: topics, appends, waiting, flushing, fetch sessions.

`topics` (the tables, and their observers), `internal_topics`; `appends` with `large_appends` and `flusher`
(into the log, and onto the disk); `reading` (by the broker itself), `waits` and `fetch_sessions` (reads that wait); `searches` (by timestamp); `reasons` (error
messages of rows).
"""
