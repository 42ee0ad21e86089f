"""The broker's options, the values that are set, and how those change.

`options` (the tables); `broker_config` (the values of a node) with `listeners` and `rules`; `static_config` (the values
of a start, from all sources) with `properties`, `features` and `emulation`; `live_config` (the values at this moment);
`changes` (what clients may set) and `resources` (what DescribeConfigs shows).
"""
