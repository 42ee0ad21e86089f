"""The data directories of the broker: whose they are, what lies in them, and all logs opened, made, deleted and closed.

Read in this order: `inspection` (before anything changes), `partition_dirs` (which directory is which partition), `claims`
(whose they are is written down), `data_dir` (one of them), `manager` and `log_table` (all logs), with `loading` at a start,
`making` for new ones, `opener` below both, `pending_deletions` (deleted ones), and `clean_stop`, which marks a stop.
"""
