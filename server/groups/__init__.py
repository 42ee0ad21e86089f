"""Group coordination: who is in a consumer group, who leads it, and what offsets it has committed.

Read in this order: `classic.group` (one classic group: members, votes, states), `classic.protocol` (what requests and
time-outs do to it), `classic.rebalance` (how it gets to its next generation), `offset_table`, `offset_commits` and `txn_commits`
(committed offsets), `records` (how all is written down), `shard` (all groups of one partition of `__consumer_offsets`),
`classic_requests` (who comes by the classic protocol, to whatever group), `upkeep` (what goes on without being asked),
`coordinator` (the front door), `service` (Trio). Consumer groups (KIP-848) are in `consumer`, share groups (KIP-932) in
`share`, streams groups (KIP-1071) in `streams`; what these three have alike is in `reconciled` (the table)
and `reconciled_protocol` (what time does to it). `assigning` says who gets which partition, `kinds` what groups of all
kinds have in common. What every coordinator needs is in `server.coordination`.
"""
