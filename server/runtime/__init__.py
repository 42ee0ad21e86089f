"""Clock, nursery, threads and turns: what everything that runs in the server stands on.

`clock` (two times); `nursery`, `time_slices` (Trio's thread, and how long anybody may have it); `threads` (worker threads);
`collector` and `freeing` (memory that is given back); `meters`; `expressions`; `floods` (what clients bring about in a log).
"""
