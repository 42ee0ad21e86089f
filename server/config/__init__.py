"""What the broker can be configured with, what it is configured with, and how that changes.

`broker_options` (declared, and acted on) and `known_options` (Apache Kafka's others); `broker_config` (from all sources to
the values of a node) with `properties`, `listeners`, `features` and `rules`; `live_config` (the values at this moment);
`changes` (what clients may set) and `resources` (what they are shown).
"""
