"""The latest value of each key in columns of files, and back into a topic."""
