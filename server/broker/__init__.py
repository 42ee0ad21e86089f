"""The broker itself: it wires the lower rooms, starts, stops, and runs periodic jobs.

`broker` (what it owns), `life` (one life, from start to stop), `lives` (several in succession, on the same sockets), `contents`
(changes of all data between two lives), `node_life` (single nodes stop and start), `housekeeping` (periodic jobs), `metrics`.
"""
