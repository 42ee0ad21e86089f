"""Partitions as requests meet them: topics, appends, waiting, flushing, fetch sessions."""
