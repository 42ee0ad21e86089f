"""The cost of unused partitions."""
