"""What the functions of `jobs` have in common.

`job_plans` (which logs, and which plan), `at_once` (partition by partition), `plan_runs` (what is done with a plan), `engine` (where:
Spark, or this process) with `session` and `java`, `progress`, `job_results`.
"""
