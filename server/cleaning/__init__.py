"""The cleaner at work in the server: threads, passes, throttle, leases, status.

Read in this order: `cleaning` (chooses, runs, saves, and keeps the cleaner off a partition), `threads` (what each of them
has), `clean_pass` (one pass in a worker thread, throttled), `watched` (how far it is), `advice` (what is told of it, and what to do about
it), `leases` (partitions that somebody else compacts), `log_moves` (partitions on their way to another data directory, which keeps
the cleaner off them). Which log and how far is decided in `storage.cleaning`, which records stay in `storage.filter`.
"""
