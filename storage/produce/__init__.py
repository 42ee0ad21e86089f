"""Checks of an append, and the state of producers and their transactions.

`validation` with `record_checks` (the batch), `producers` with `producer_state` and `verifications` (its sequence),
`producer_snapshots`, `txn_markers`.
"""
