"""Broker nodes in processes of their own: each owns the logs of the partitions that its node leads.

Read `link`, `process` and `keeper` (one process, and the next one), then `pool` (all of them), `owners`, `handing` and `moves` (who has
which log), `forwarding`, `verification` and `markers` (what is asked of the other side). The other side is `broker.worker`.
"""
