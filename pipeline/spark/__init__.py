"""What the jobs on Spark have in common: tasks by number, rows that are blobs, what a failed task has raised."""
