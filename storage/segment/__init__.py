"""One segment: its records, its indexes, and the small files beside it."""
