"""Group coordination: who is in a consumer group, who leads it, and what offsets it has committed.

Read in this order: `group` (one classic group: members, votes, states), `classic` (what requests and time-outs do to
it), `rebalance` (how it gets to its next generation), `offsets` and `commits` (committed offsets), `records` (how all
is written down), `shard` (all groups of one partition of `__consumer_offsets`), `coordinator` (the front door),
`service` (Trio). What every coordinator needs is in `..coordination`.
"""
