"""Floor 2: partitions in directories. Synchronous; time comes in as now_ms; no network."""
