"""Group coordination: who is in a consumer group, who leads it, and what offsets it has committed.

Read in this order: `classic.group` (one classic group: members, votes, states), `classic.protocol` (what requests and
time-outs do to it), `classic.rebalance` (how it gets to its next generation), `offsets.offsets` and `offsets.commits`
(committed offsets), `records` (how all is written down), `shard` (all groups of one partition of `__consumer_offsets`),
`coordinator` (the front door), `service` (Trio). Consumer groups (KIP-848) are in `consumer`, share groups (KIP-932) in `share`, who gets which partition in
`assigning`; `kinds` is what groups of all kinds have in common. What every coordinator needs is in
`server.coordination`.
"""
