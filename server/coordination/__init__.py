"""What all coordinators share: groups, transactions, and what else is kept in a compacted topic of the broker's own.

Each coordinator keeps its state in a topic; a key (a group id, a transactional id) belongs to one partition of it, and
the node that leads that partition coordinates the key. Read in this order: `partitions` (which one), `store` and
`log_store` (the topic), `records` (what is written to it), `shard` (one partition's tables and how they are
loaded), `deadlines` (what happens later), `jobs` (what takes long), `coordinator` (all shards), `service` (Trio), `ground`
(what that stands on).

Everything but `log_store` and `service` is plain synchronous code: `now_ms` comes in, and `next_deadline_ms` says when
to be woken. Nothing in it sleeps.
"""
