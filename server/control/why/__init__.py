"""Why a partition is compacted or not: what would make it so, what a pass would remove, and what became of one key."""
