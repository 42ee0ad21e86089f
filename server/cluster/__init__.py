"""State of the cluster: nodes, leaders, replicas, topics. The only writer of the catalog.

Read in this order: `nodes`, `cluster` (nodes, topics and catalog under one lock), `opening` (the start);
`topic_plans` (checks of topic changes, placement) and `topic_admin` (the changes), with `partition_logs` (their
logs); `config_changes`; `leadership` (leaders while nodes stop and start), `placement` and
`reassignment` (changes of replicas), `reassignments` and `replication_throttle` (their progress); `producer_ids`.
"""
