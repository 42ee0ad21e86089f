"""Code that the jobs on Spark share: numbered tasks, rows that are blobs, errors of failed tasks."""
