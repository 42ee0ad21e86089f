"""The broker itself: wires the rooms below, starts, stops, and looks after the house.

`broker` (what it owns, how it starts and stops), `node_life` (single nodes stop and start), `housekeeping` (the jobs that
nobody asks for), `metrics`.
"""
