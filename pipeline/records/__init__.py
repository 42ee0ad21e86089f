"""Records as columns.

`batch_window` (headers of many batches), `columns` (their records), `arrow` (for Spark), `key_hashes`, `versions`.
"""
