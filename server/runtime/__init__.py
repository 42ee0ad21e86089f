"""Clock, nursery, threads and turns: what everything that runs in the server stands on.

`clock` (two times); `nursery`, `time_slices`, `waking` (Trio's thread, and how long anybody may have it); `disk` and `cold_reads`
(worker threads); `collector` and `freeing` (memory that is given back); `meters`; `expressions`; `floods` and
`log_lines` (what clients bring about in a log).
"""
