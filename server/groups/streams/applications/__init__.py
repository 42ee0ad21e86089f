"""The application of a streams group: what it reads and writes, and what that makes of the topics there are.

Read in this order: `topology` (subtopologies, as members bring them along and as they are written down), `partition_counts` (how large
repartition topics are), `configured` (tasks, internal topics, and what is missing or wrong).
"""
