"""Common parts of all coordinators: of groups, transactions, and everything else that is kept in an internal, compacted topic.

Each coordinator keeps its state in a topic; a key (a group id, a transactional id) belongs to one partition of it, and
the node that leads that partition coordinates the key. Read in this order: `partitions` (the partition of a key), `store` and
`log_store` (the topic), `records` (its records), `shard` (one partition's tables and their loading), `deadlines` (delayed
actions), `jobs` (long work), `coordinator` (all shards), `service` (Trio), `deps` (its dependencies).

Everything except `log_store` and `service` is plain synchronous code: `now_ms` is an argument, and `next_deadline_ms` says when
to call again. Nothing in it sleeps.
"""
