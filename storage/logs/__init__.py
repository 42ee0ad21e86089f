"""One log: append, read, retention, flush, recovery, the swap of cleaned segments."""
