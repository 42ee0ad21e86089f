"""How a command becomes a job: sessions, plans that are gone on with, progress and results.

`cli_runs` (options in, results out), `commands` (what is done for each partition), `job_plans` (on which plan), `engine`
(where: Spark, or this process) with `session` and `java`, `job_results`.
"""
