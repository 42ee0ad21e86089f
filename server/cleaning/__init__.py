"""The cleaner in the server: threads, passes, throttle, leases, status.

Read in this order: `cleaning` (selects, runs and saves passes, and keeps the cleaner off a partition), `threads` (the
state of each thread), `clean_pass` (one pass in a worker thread), `throttler` (its speed limit), `watched` (progress of passes), `advice`
(status and suggested actions), `leases` (partitions that another process compacts), `log_moves` (partitions that move
to another data directory, which keeps the cleaner off them). `storage.cleaning` decides which log is cleaned and how
far, `storage.filter` which records are kept.
"""
