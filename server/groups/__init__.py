"""Group coordination: members of groups, their leaders and assignments, and committed offsets.

Read in this order: `classic.group` (one classic group: members, votes, states), `classic.protocol` (what requests and
time-outs do to it), `classic.rebalance` (how it gets to its next generation), `offset_table`, `offset_commits` and `txn_commits`
(committed offsets), `records` (how all is written down), `shard` (all groups of one partition of `__consumer_offsets`),
`classic_requests` (requests of the classic protocol to any kind of group), `maintenance` (periodic work),
`coordinator` (the entry point), `service` (Trio). Consumer groups (KIP-848) are in `consumer`, share groups (KIP-932) in
`share`, streams groups (KIP-1071) in `streams`; the common parts of these three are in `reconciled` (the table)
and `reconciled_protocol` (its timers). `assigning` has the assignors, `kinds` the common interface of all
kinds of groups. The common parts of all coordinators are in `server.coordination`.
"""
