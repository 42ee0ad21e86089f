"""Transaction coordination: which producer may write under a transactional id, and how its transactions end.

Read in this order: `metadata` (one transactional id: states and how it moves between them), `decisions` (what EndTxn
does in each), `records` (how that is written down), `shard` (all transactional ids of one partition of
`__transaction_state`), `endings` (markers, time-outs), `expiry`, `listing`, `coordinator` (the front door), `service`
(Trio). On the side of the partitions: `verification` and `writes` (may this batch be appended?), `markers`.

A transaction ends in two steps. PrepareCommit or PrepareAbort in the log is the decision, which nothing undoes. Then
every partition of the transaction gets a marker (`markers`), and after the last one CompleteCommit or CompleteAbort
closes it. Whoever loads a partition of `__transaction_state` finishes what is prepared in it.
"""
