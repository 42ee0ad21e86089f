"""What a compacted log must hold, judged record by record, without any code that compacts.

Read in this order: `verify` (the stages), `audit_scope` and `promises` (what is judged by what), `log_view`, `range_audit` with
`record_table`, `segment_checks` and `txn_audit`, `key_audit`, `findings`; `verify_jobs` (on Spark).
"""
