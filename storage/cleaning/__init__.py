"""Selection of the log to clean, the range of a pass, and the pass itself.

Read in this order: `dirtiness` (how dirty one log is), `cleaner_manager` (which log is selected), `cleaning_states`
(which operation has a partition), `cleaner` (one pass), `progress` (progress of a pass), `cleaner_checkpoints` (where
passes ended). `eligibility` explains all this to people, with `outlook` (what would make a log eligible), `dry_run`
with `clean_stats` (what a pass would remove) and `key_history` (the records of one key).
"""
