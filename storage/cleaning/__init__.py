"""Which log is cleaned next, how far, and what becomes of a pass.

Read in this order: `dirtiness` (how dirty one log is), `cleaner_manager` (which is taken), `cleaning_states` (who may
touch a partition), `cleaner` (one pass), `progress` (how far it is), `cleaner_checkpoints` (how far it came); `eligibility` says all this to
people, with `outlook` (what it would take), `dry_run` with `clean_stats` (what a pass would take out) and `key_history` (what became of a key).
"""
