"""Data directories as jobs read them: logs and segments, while a server may change the files.

`store`, and one log of it for a plan (`stored_log`) or for readers (`log_files`); `segment_names` and `segment_files`
(the contents of a directory at one moment), `txn_indexes`; `reading_files`.
"""
