"""Group coordination: who is in a consumer group, who leads it, and what offsets it has committed.

Read in this order: `group` (one classic group: members, votes, states), `classic` (what requests and time-outs do to
it), `rebalance` (how it gets to its next generation), `offsets` and `commits` (committed offsets), `records` (how all
is written down), `shard` (all groups of one partition of `__consumer_offsets`), `coordinator` (the front door),
`log_store` (the real topic), `service` (Trio).

Everything but `log_store` and `service` is plain synchronous code over tables: `now_ms` comes in, answers go out
through callbacks, and `next_deadline_ms` says when to be woken. Nothing in it sleeps.
"""
