"""Floor 2: partitions in directories. Synchronous; time comes in as now_ms (wall) and elapsed_ms (what only passes); no network."""
