"""What the broker can be configured with, what it is configured with, and how that changes.

`options` (the tables); `broker_config` (the values of a node) with `listeners` and `rules`; `static_config` (what a start is told,
by all its sources) with `properties`, `features` and `emulation`; `live_config` (the values at this moment);
`changes` (what clients may set) and `resources` (what they are shown).
"""
