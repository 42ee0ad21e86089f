"""Who holds what: nodes, leaders, replicas, topics. The only writer of the catalog.

Read in this order: `nodes`, `cluster` (nodes, topics and catalog under one lock), `opening` (what a start finds);
`topic_plans` (what may become of topics, and on which nodes) and `topic_admin` (it is done), with `partition_logs` (their
logs); `config_changes`; `leadership` (who leads while nodes come and go), `placement` and
`reassignment` (partitions change hands), `reassignments` and `replication_throttle` (how long that is under way); `producer_ids`.
"""
