"""Basics of everything in the server: clock, nursery, threads, time slices.

`clock` (wall time and elapsed time); `nursery`, `time_slices` (Trio's thread, and how long a task may keep it); `threads`
(worker threads); `gc_policy` and `deferred_free` (memory that is given back); `meters`; `expressions`; `log_rate_limit` (rate limits for log
lines that clients cause).
"""
