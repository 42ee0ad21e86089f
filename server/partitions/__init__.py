"""Partitions as requests meet them: topics, appends, waiting, flushing, fetch sessions.

`topics` (the tables, and who is told of changes), `internal_topics`; `appends` with `large_appends` and `flusher`
(into the log, and onto the disk); `waits` and `fetch_sessions` (reading on); `searches` (by timestamp); `reasons` (why
rows were refused).
"""
