"""One log, and all logs of the data directories: append, read, retention, flush, recovery, the swap of cleaned segments."""
