"""Verification that a compacted log keeps its promises, record by record, without any code that compacts.

Read in this order: `verify` (the stages), `audit_scope` and `promises` (segments and their rules), `log_view`, `range_audit`
    with
`record_table`, `segment_checks` and `txn_audit`, `key_audit`, `findings`; `verify_jobs` (on Spark).
"""
