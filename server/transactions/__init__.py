"""Transaction coordination: which producer may write under a transactional id, and how its transactions end.

Read in this order: `metadata` (one transactional id: states and how it moves between them), `records` (how that is
written down), `shard` (all transactional ids of one partition of `__transaction_state`), `coordinator` (requests),
`endings` (markers, time-outs), `expiry`, `listing`, `service` (Trio).

A transaction ends in two steps. PrepareCommit or PrepareAbort in the log is the decision, which nothing undoes. Then
every partition of the transaction gets a marker (`markers`), and after the last one CompleteCommit or CompleteAbort
closes it. Whoever loads a partition of `__transaction_state` finishes what is prepared in it.
"""
