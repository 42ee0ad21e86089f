"""Which records of a log stay, and the segments that they are copied into: what the cleaner and Spark's tasks share.

Read in this order: `map_builder` with `offset_map` (the newest record of each key), `dead_bits` (what comes of it),
`clean_rules` with `transaction_state` (what stays of a batch), `clean_output`, `copy_group` (a group of segments
becomes one); `batch_chunks` reads them. `listed_filter` names what goes.
"""
