"""Broker nodes in processes of their own: each owns the logs of the partitions that its node leads.

Read `link`, then `pool` (the first process), `process` (the program of the others), `worker` (its broker), `forwarding` and
`verification` (what it asks the first process for).
"""
