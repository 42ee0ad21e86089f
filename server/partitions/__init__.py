"""Partitions as requests meet them: topics, appends, waiting, flushing, fetch sessions.

`topics` (the tables), `internal_topics`, `watcher` (who is told of changes); `appends` with `large_appends` and `flusher`
(into the log, and onto the disk); `waits` and `fetch_sessions` (reading on); `searches` (by timestamp); `reasons` (why
rows were refused).
"""
