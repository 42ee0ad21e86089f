"""A data directory as jobs find it: logs, segments, and which files a server may change meanwhile.

`store`, and one log of it for a plan (`stored_log`) or for readers (`log_files`); `segment_names` and `segment_files`
(what lies there at one moment), `txn_indexes`; `reading_files`.
"""
