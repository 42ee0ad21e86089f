"""The broker itself: wires the rooms below, starts, stops, and looks after the house.

`broker` (what it owns), `life` (one life of it, from start to stop), `lives` (one after the other, on the same sockets),
`contents` (what is done to all data in between), `node_life` (single nodes stop and
start), `housekeeping` (the jobs that nobody asks for), `metrics`.
"""
