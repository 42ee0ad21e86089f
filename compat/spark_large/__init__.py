"""A log with more keys than any map of one server holds, and the memory of every process that works on it."""
