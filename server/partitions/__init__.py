"""Partitions as requests meet them: topics, waiting, flushing, large appends, cold reads."""
