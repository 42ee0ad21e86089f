"""Which records of a log stay, and the segments that they are copied into: what the cleaner and Spark's tasks have in common."""
