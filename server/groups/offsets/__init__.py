"""Committed offsets, transactional ones too.

`offsets` (the table), `commits` (committing, fetching, expiring), `txn_commits` (within a transaction).
"""
