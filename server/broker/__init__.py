"""The broker itself: it wires the lower rooms, starts, stops, and runs periodic jobs.

`broker` (what it owns), `run` (one run, from start to stop), `supervisor` (several runs, on the same sockets), `contents`
(changes of all data between two runs), `node_run` (single nodes stop and start), `background_jobs` (periodic jobs), `metrics`.
"""
