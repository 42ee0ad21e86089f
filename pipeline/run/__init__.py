"""Code that the functions of `jobs` share.

`job_plans` (which logs, and which plan), `at_once` (partition by partition), `plan_runs` (run, verify and install a plan),
`engine` (on Spark, or in this process) with `session` and `java`, `progress`, `job_results`.
"""
