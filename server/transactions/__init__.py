"""Transaction coordination: producers of transactional ids, and the end of their transactions.

Read in this order: `metadata` (one transactional id: states and how it moves between them), `decisions` (what EndTxn
does in each), `records` (how that is written), `shard` (all transactional ids of one partition of
`__transaction_state`), `completer` (markers, time-outs), `expiry`, `listing`, `coordinator` (the entry point), `service`
(Trio). On the side of the partitions: `verification` and `writes` (whether a batch may be appended), `markers`.

A transaction ends in two steps. PrepareCommit or PrepareAbort in the log is the decision, which nothing undoes. Then
every partition of the transaction gets a marker (`markers`), and after the last one CompleteCommit or CompleteAbort
completes it. A node that loads a partition of `__transaction_state` completes all prepared transactions.
"""
