"""`ottla-spark restore` in several processes, killed at its work, and the topic compared row by row."""
